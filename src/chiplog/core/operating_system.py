"""What operating systems do differently: syncing files, opening them, naming the host.

Features are looked up by name, so that a system that lacks one is recognised by its absence.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from chiplog.core.errors import Unsupported

# Elsewhere, on Windows, files have no modes, `os.kill(pid, 0)` ends a process or sends it a ^C, and no run is written.
POSIX = hasattr(os, "getuid")

# Flags of `os.open`; 0 where a system has no such flag. Windows would translate line ends without O_BINARY.
O_BINARY = getattr(os, "O_BINARY", 0)
O_CLOEXEC = getattr(os, "O_CLOEXEC", 0)  # without it, Python itself makes the descriptor non-inheritable
O_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
O_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
O_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


def check_writes(advice: str) -> None:
    """Raise where chiplog writes no runs."""
    if not POSIX:
        raise Unsupported(f"on Windows, chiplog reads runs and does not write them; {advice}")


def sync(fd: int) -> None:
    """Wait until a file is on disk, data and attributes."""
    if not _sync_drive(fd):
        os.fsync(fd)


def sync_data(fd: int) -> None:
    """Wait until a file's data is on disk, and whatever is needed to read it."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        sync(fd)


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Bytes of a file from an offset; elsewhere than on POSIX, its one position moves there."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, size)


def hostname() -> str:
    if hasattr(os, "uname"):
        return os.uname().nodename
    import socket  # takes milliseconds, and is rarely needed

    return socket.gethostname()


def exists(path: Path) -> bool:
    """Whether there is something at a path; raises if that cannot be determined.

    `Path.exists` calls a path that cannot be reached absent, from Python 3.14 on for every error.
    """
    return _mode(path) is not None


def is_dir(path: Path) -> bool:
    """Whether a path is a directory; raises if that cannot be determined, like `exists`."""
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP):  # as until Python 3.13
            return None
        raise


def _sync_drive(fd: int) -> bool:
    """On macOS, where `fsync` leaves data in the cache of the drive: flush that too. Whether it could be done."""
    try:
        import fcntl
    except ImportError:
        return False
    flush = getattr(fcntl, "F_FULLFSYNC", None)
    if flush is None:
        return False
    try:
        fcntl.fcntl(fd, flush)
    except OSError:  # a file system without it
        return False
    return True
