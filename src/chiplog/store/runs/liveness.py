"""Tells whether a process is still running."""

from __future__ import annotations

import os
from pathlib import Path


def born(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 if unknown."""
    try:
        return int(_stat(pid)[19])
    except (OSError, ValueError, IndexError):
        return 0


def alive(pid: int, started: int) -> bool:
    """Whether a process of this machine is running, and is the one that started then."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        stat = _stat(pid)
        return stat[0] != b"Z" and (not started or int(stat[19]) == started)
    except (OSError, ValueError, IndexError):
        return True  # no /proc here


def hostname() -> str:
    return os.uname().nodename


def boot_id() -> str:
    """The id of this boot of this machine; empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[bytes]:
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    return stat[stat.rindex(b")") + 2 :].split()
