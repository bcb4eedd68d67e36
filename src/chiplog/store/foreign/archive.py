"""A zip archive, or the folder that it was made of: files inside are read by name, and never unpacked.

What is inside is checked before any of it is used, so a flipped bit is never a value. An archive that unfolds to far
more than it holds is not read.
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
from chiplog.core.values.text import reason
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
        self.is_packed = not path.is_dir()

    def files(self) -> dict[str, str]:
        """The files by name, each with what changes when it does; none if it cannot be read."""
        try:
            if not self.is_packed:
                listed = reading.path_names(self.path)[:MOST_NAMES]
                names = [name for name in listed if reading.exists(self.path, name)]
                return {
                    name: f"{(about := reading.status(self.path, name)).st_size} {about.st_mtime_ns}" for name in names
                }
            with self._zip() as archive:
                entries = archive.infolist()[:MOST_NAMES]
                return {one.filename: f"{one.file_size} {one.CRC}" for one in entries if not one.is_dir()}
        except DAMAGE:
            return {}

    def damage(self) -> str:
        """Why it cannot be read, for a file that is meant as an archive; empty if it can."""
        try:
            with self._zip():
                return ""
        except DAMAGE as error:
            return reason(error)

    def sources(self, *names: str) -> tuple[Path, ...]:
        """The files on disk that these are in."""
        return (self.path,) if self.is_packed else tuple(self.path / name for name in names)

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
        """The lines of a file; one that cannot be read is named."""
        if name not in self.files():
            return
        try:
            if self.is_packed:
                self._check(name)
            with self._open(name) as file:
                rest = b""
                while data := file.read(CHUNK):
                    *whole, rest = (rest + data).split(b"\n")
                    yield from whole
                    if len(rest) > LONGEST:
                        losses.add(f"the rest of {name}, which has a line of more than {LONGEST:,} bytes")
                        return
        except (KeyError, *DAMAGE) as error:
            losses.add(f"{name}, which cannot be read ({reason(error)})")
            return
        if rest:
            yield rest

    def _check(self, name: str) -> None:
        """Read a file to its end, where its CRC is; raises for a damaged one, and for one that is too large."""
        left = TIMES * self.path.stat().st_size + ROOM
        with self._open(name) as file:
            while data := file.read(CHUNK):
                left -= len(data)
                if left < 0:
                    raise ValueError(f"it unfolds to more than {TIMES} times the size of the archive")

    @contextmanager
    def _zip(self) -> Iterator[zipfile.ZipFile]:
        with reading.open_path(self.path, regular=True) as file, zipfile.ZipFile(file) as archive:
            yield archive

    @contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        if not self.is_packed:
            with reading.open_file(self.path, name) as file:
                yield file
            return
        with self._zip() as archive, archive.open(name) as inside:
            yield inside
