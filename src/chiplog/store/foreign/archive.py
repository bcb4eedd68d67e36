"""A zip archive, or the folder that it was made of: files inside are read by name, and never unpacked.

An archive that unfolds to far more than it holds is read up to a limit.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from chiplog.core.files import reading
from chiplog.store.foreign.protocol import Losses, digest

CHUNK = 1 << 20
LONGEST = 64 << 20  # bytes of a line
TIMES, ROOM = 200, 64 << 20  # an archive unfolds to so many times its size, and this many bytes more, at most
MOST_NAMES = 100_000
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    struct.error,
)


class Archive:
    """Names inside are exact; a link in an archive is only a small file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_folder = path.is_dir()

    def files(self) -> dict[str, str]:
        """The files by name, each with what changes when it does; none if it cannot be read."""
        try:
            if self._is_folder:
                listed = reading.entries(self.path, "")
                return {name: f"{about.st_size} {about.st_mtime_ns}" for name, about in listed}
            with self._zip() as archive:
                entries = archive.infolist()[:MOST_NAMES]
                return {one.filename: f"{one.file_size} {one.CRC}" for one in entries if not one.is_dir()}
        except DAMAGE:
            return {}

    def stamp(self) -> str:
        return digest(repr(sorted(self.files().items())))

    def read(self, name: str, most: int) -> bytes:
        """A file of at most so many bytes; empty if it cannot be read."""
        try:
            with self._open(name) as file:
                data = file.read(most + 1)
        except (KeyError, *DAMAGE):
            return b""
        return data if len(data) <= most else b""

    def lines(self, name: str, losses: Losses) -> Iterator[bytes]:
        """The lines of a file as far as it can be read; damage is named."""
        left = TIMES * self.path.stat().st_size + ROOM if not self._is_folder else 1 << 62
        rest = b""
        try:
            with self._open(name) as file:
                while data := file.read(CHUNK):
                    left -= len(data)
                    *whole, rest = (rest + data).split(b"\n")
                    yield from whole
                    if left < 0 or len(rest) > LONGEST:
                        losses.add(f"the rest of {name}, which is larger than such a file can be")
                        return
        except KeyError:
            return
        except DAMAGE as error:
            losses.add(f"the rest of {name}, which is damaged ({type(error).__name__})")
            return
        if rest:
            yield rest

    @contextmanager
    def _zip(self) -> Iterator[zipfile.ZipFile]:
        with reading.open_path(self.path, regular=True) as file, zipfile.ZipFile(file) as archive:
            yield archive

    @contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        if self._is_folder:
            with reading.open_file(self.path, name) as file:
                yield file
            return
        with self._zip() as archive, archive.open(name) as inside:
            yield inside
