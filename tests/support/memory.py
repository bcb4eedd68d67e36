"""How much memory a process has used at most. `ru_maxrss` is inherited across exec, so it is not asked."""

from __future__ import annotations

from pathlib import Path


def peak(pid: int | str = "self") -> int:
    """The most that a process has had in memory, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) >> 10


def reset_peak() -> None:
    """Forget what this process needed before."""
    Path("/proc/self/clear_refs").write_text("5")
