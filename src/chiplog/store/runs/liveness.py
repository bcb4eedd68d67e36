"""Tells whether a process is still running."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from chiplog.core.operating_system import POSIX
from chiplog.core.operating_system import hostname as hostname


def born(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 if unknown."""
    try:
        return int(_stat(pid)[19])
    except (OSError, ValueError, IndexError):
        return 0


class Process(Protocol):
    """A process as its records name it; empty fields are unknown, as in records of older versions."""

    @property
    def host(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def born(self) -> int: ...
    @property
    def boot(self) -> str: ...
    @property
    def pid_namespace(self) -> int: ...


def is_alive(process: Process) -> bool | None:
    """Whether a process is running; None if that cannot be seen from here, and only its heartbeat tells.

    A pid means something only on its host, in its boot, and in its pid namespace: a container may share the host name.
    """
    if not POSIX or process.host != hostname() or process.boot not in ("", boot_id()):
        return None
    if process.pid_namespace not in (0, pid_namespace()):
        return None
    return alive(process.pid, process.born)


def alive(pid: int, started: int) -> bool:
    """Whether a process of this machine is running, and is the one that started then; true if that is unknown."""
    if not POSIX:
        return True
    if not 0 < pid < 1 << 31:  # never a process, and 0 and -1 are all of them
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        if not _proc_is_ours():
            return True
        stat = _stat(pid)
        return stat[0] != b"Z" and (not started or int(stat[19]) == started)
    except (OSError, ValueError, IndexError):
        return True  # no /proc here


def pid_namespace() -> int:
    """The id of this process's pid namespace; 0 if unknown."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def boot_id() -> str:
    """The id of this boot of this machine; empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _proc_is_ours() -> bool:
    """Whether /proc shows the pids of our namespace: a container may have kept that of its host."""
    return Path("/proc/self").readlink().name == str(os.getpid())


def _stat(pid: int) -> list[bytes]:
    stat = Path(f"/proc/{'self' if pid == os.getpid() else pid}/stat").read_bytes()
    return stat[stat.rindex(b")") + 2 :].split()
