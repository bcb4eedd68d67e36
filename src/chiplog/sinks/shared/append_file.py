"""A file that grows at its end and can be cut back: what the file sinks write to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from chiplog.core import messages
from chiplog.core.paths import file_mode, is_private, make_place

CHUNK = 1 << 20


class AppendFile:
    """One file, private inside a run directory. After every `append` it ends with `tail`, which `size` does not count.

    A write that fails leaves the file as it was. The file is opened when first needed, and again after `close`.
    """

    def __init__(self, path: Path, tail: bytes = b"") -> None:
        self.path = path
        self.size = 0
        self.aside = path.with_name(f".{path.name}.new")
        self._tail = tail
        self._fd: int | None = None
        self._created = False

    def append(self, data: bytes) -> None:
        fd = self._open()
        try:
            _write(fd, data + self._tail, self.size)
        except OSError:
            try:
                self.cut(self.size)
            except OSError:
                pass  # the first error is the one to report
            raise
        self.size += len(data)

    def cut(self, size: int) -> None:
        """Truncate the file to `size` bytes, followed by the tail."""
        fd = self._open()
        os.ftruncate(fd, size)
        _write(fd, self._tail, size)
        self.size = size

    def restore(self, size: int) -> bool:
        """Cut the file on disk back to `size` bytes, even if it has been replaced; false if it is shorter than that."""
        self.close()
        if self.length() < size:
            return False
        self.cut(size)
        return True

    def replace(self, pieces: Iterable[bytes]) -> None:
        """Write a new file beside the old one, and rename it into place."""
        make_place(self.aside.parent)
        fd = _create(self.aside, os.O_TRUNC)
        size = 0
        try:
            for piece in pieces:
                _write(fd, piece, size)
                size += len(piece)
            _write(fd, self._tail, size)
            self.aside.replace(self.path)
        except BaseException:
            os.close(fd)
            self.aside.unlink(missing_ok=True)
            raise
        self.close()
        self._fd, self.size = fd, size

    def length(self) -> int:
        """The length of the file on disk, whoever wrote it."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def remove(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)
        self.size = 0

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _open(self) -> int:
        if self._fd is None:
            if self._created:
                mode = 0o700 if is_private(self.path.parent) else 0o777
                self.path.parent.mkdir(mode=mode, exist_ok=True)  # but not the run, which may have been renamed
            else:
                make_place(self.path.parent)
            self._fd = _create(self.path)
            self._created = True
        return self._fd


def check_regular(path: Path) -> None:
    """Raise OSError if the path is taken by something other than a regular file, which we must not rename."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise OSError(f"{path} is not a regular file, so it cannot be written; move it, or choose another path")


def keep_aside(path: Path) -> None:
    """Rename a file that has something in it to a numbered name, and report it."""
    try:
        if not path.stat().st_size:
            return
    except FileNotFoundError:
        return
    check_regular(path)
    aside = numbered(path, "{stem}.{number}{suffix}")
    path.rename(aside)
    messages.say(f"{path} was there already; it is kept as {aside.name}")


def numbered(path: Path, form: str) -> Path:
    """The first free path beside another, such as `metrics.1.csv`."""
    for number in count(1):
        free = path.with_name(form.format(name=path.name, stem=path.stem, suffix=path.suffix, number=number))
        if not free.exists():
            break
    return free


def _create(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, file_mode(path))


def _write(fd: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written
