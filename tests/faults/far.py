"""A file system like a bad network one: `python far.py BEHIND POINT` shows a directory at a point, with faults.

What the file `faults` beside BEHIND asks for goes wrong so many times: `{"write": ["ESTALE", 3], "close": ["EIO", 1]}`.
POSIX locks, links and shared maps are never to be had, attributes and names are believed for a second, and appending is done by the
client at the end it believes in. Two points with the same BEHIND are two hosts.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import mfusepy


class Far(mfusepy.Operations):  # type: ignore[misc]
    use_ns = True

    def __init__(self, behind: Path) -> None:
        self._behind = behind
        self._faults = behind.with_name("faults")
        self._lock = threading.Lock()

    def _at(self, path: str) -> Path:
        return self._behind / path.lstrip("/")

    def _fail(self, what: str) -> None:
        with self._lock:
            try:
                faults: dict[str, Any] = json.loads(self._faults.read_text())
            except FileNotFoundError:
                return
            name, left = faults.get(what, ("", 0))
            if left:
                faults[what] = (name, left - 1)
                aside = self._faults.with_name("faults-to-be")
                aside.write_text(json.dumps(faults))
                aside.replace(self._faults)
                raise mfusepy.FuseOSError(getattr(errno, name))

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        found = os.fstat(fh) if fh is not None else os.lstat(self._at(path))
        names = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size")
        times = {f"st_{one}time": getattr(found, f"st_{one}time_ns") for one in "amc"}
        return {name: getattr(found, name) for name in names} | times

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._at(path))]

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at(path))
        return {name: getattr(found, name) for name in ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail")}

    def mkdir(self, path: str, mode: int) -> None:
        self._at(path).mkdir(mode)

    def rmdir(self, path: str) -> None:
        self._at(path).rmdir()

    def unlink(self, path: str) -> None:
        self._at(path).unlink()

    def rename(self, old: str, new: str) -> None:
        self._at(old).rename(self._at(new))

    def chmod(self, path: str, mode: int) -> None:
        self._at(path).chmod(mode)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        os.utime(self._at(path), ns=times)

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        # The client says O_EXCL only to itself, and asks for `create` where it believes that nothing is.
        return os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def open(self, path: str, flags: int) -> int:
        self._fail("open")
        return os.open(self._at(path), flags & ~(os.O_APPEND | os.O_CREAT | os.O_EXCL))

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        self._fail("write")
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        os.truncate(self._at(path) if fh is None else fh, length)

    def flush(self, path: str, fh: int) -> None:
        self._fail("close")

    def release(self, path: str, fh: int) -> None:
        os.close(fh)

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        self._fail("fsync")
        os.fsync(fh)

    def link(self, target: str, source: str) -> None:
        raise mfusepy.FuseOSError(errno.EPERM)

    def lock(self, path: str, fh: int, cmd: int, lock: Any) -> None:
        raise mfusepy.FuseOSError(errno.ENOLCK)


if __name__ == "__main__":
    mfusepy.FUSE(
        Far(Path(sys.argv[1])),
        sys.argv[2],
        foreground=True,
        direct_io=True,
        attr_timeout=1,
        entry_timeout=1,
        negative_timeout=1,
        fsname="far",
        subtype="far",
    )
