"""A file that grows at its end and can be cut back to where it was: what the file sinks write on."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from chiplog.core.engine.attachments import file_mode, is_private, make_place

CHUNK = 1 << 20


class AppendFile:
    """One file, private in a run's directory; after every `append` it ends with `tail`, which is not counted in `size`.

    A write that fails leaves the file as it was. Opened when first needed, and again after `close`.
    """

    def __init__(self, path: Path, tail: bytes = b"") -> None:
        self.path = path
        self.size = 0
        self.aside = path.with_name(f".{path.name}.new")
        self._tail = tail
        self._fd: int | None = None
        self._begun = False

    def append(self, data: bytes) -> None:
        fd = self._open()
        try:
            _write(fd, data + self._tail, self.size)
        except OSError:
            try:
                self.cut(self.size)
            except OSError:
                pass  # the first error says what is wrong
            raise
        self.size += len(data)

    def cut(self, size: int) -> None:
        """Let the file end after `size` bytes and the tail."""
        fd = self._open()
        os.ftruncate(fd, size)
        _write(fd, self._tail, size)
        self.size = size

    def replace(self, pieces: Iterable[bytes]) -> None:
        """Write the whole file anew, aside, and rename it into place."""
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
        """How long the file on disk is, whoever wrote it."""
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
            if self._begun:
                mode = 0o700 if is_private(self.path.parent) else 0o777
                self.path.parent.mkdir(mode=mode, exist_ok=True)  # and not the run, which may have been renamed
            else:
                make_place(self.path.parent)
            self._fd = _create(self.path)
            self._begun = True
        return self._fd


def check_regular(path: Path) -> None:
    """Raise OSError for what is there and is not a file like any other: it is nothing that we may rename."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(kind):
        raise OSError(f"{path} is not a regular file, so it cannot be written; move it, or give another path")


def _create(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, file_mode(path))


def _write(fd: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written
