"""A file that grows at its end and can be cut back: what the file sinks write to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from chiplog.core import messages
from chiplog.core.files import reading, writing
from chiplog.core.files.writing import make_place
from chiplog.core.paths import file_mode, in_run

CHUNK = 1 << 20


class AppendFile:
    """One file, private inside a run directory. After every `append` it ends with `tail`, which `size` does not count.

    A write that fails leaves the file as it was. The file is opened when first needed, and again after `close`.
    """

    def __init__(self, path: Path, tail: bytes = b"") -> None:
        self.path = path
        self.size = 0
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
        if size < 0:
            raise ValueError(f"{size} is not the size of a file")
        if self.length() < size:
            return False
        self.cut(size)
        return True

    def replace(self, pieces: Iterable[bytes]) -> None:
        """Write a new file next to the old one, and rename it into place."""
        make_place(self.path.parent)
        for name in writing.unfinished(self.path, reading.path_names(self.path.parent)):
            writing.remove(self.path.with_name(name))
        aside = writing.new_beside(self.path, file_mode(self.path))
        fd = writing.open_update(aside, 0o600)
        size = 0
        try:
            for piece in pieces:
                _write(fd, piece, size)
                size += len(piece)
            _write(fd, self._tail, size)
            writing.rename(aside, self.path)
        except BaseException:
            os.close(fd)
            writing.remove(aside)
            raise
        self.close()
        self._fd, self.size = fd, size

    def length(self) -> int:
        """The length of the file on disk, even if another program wrote it."""
        try:
            return reading.path_status(self.path).st_size
        except FileNotFoundError:
            return 0

    def remove(self) -> None:
        self.close()
        writing.remove(self.path)
        self.size = 0

    def close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _open(self) -> int:
        if self._fd is None:
            if self._created and not in_run(self.path.parent):
                self.path.parent.mkdir(exist_ok=True)
            else:
                make_place(self.path.parent)
            self._fd = writing.open_update(self.path, file_mode(self.path))
            self._created = True
        return self._fd


def check_regular(path: Path) -> None:
    """Raise OSError if the path is taken by something other than a regular file, which we must not rename."""
    try:
        mode = reading.path_status(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise OSError(f"{path} is not a regular file, so it cannot be written; move it, or choose another path")


def keep_aside(path: Path) -> None:
    """Rename a file that has something in it to a numbered name, and report it."""
    try:
        if not reading.path_status(path).st_size:
            return
    except FileNotFoundError:
        return
    check_regular(path)
    aside = numbered(path, "{stem}.{number}{suffix}")
    writing.rename(path, aside)
    messages.say(f"{path} already exists; the old file is now {aside.name}")


def numbered(path: Path, form: str) -> Path:
    """The first free path next to another, such as `metrics.1.csv`."""
    for number in count(1):
        free = path.with_name(form.format(name=path.name, stem=path.stem, suffix=path.suffix, number=number))
        if not os.path.lexists(free):
            break
    return free


def _write(fd: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written
