"""A text file that may still grow: whole lines from a position on, and whether it is still the same file."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.store.foreign.protocol import Rewritten

HEAD = 1024  # bytes that tell a file from another one in its place
CHUNK = 1 << 20
LONGEST = 64 << 20  # bytes of a line


class GrowingFile:
    """Reads lines; `offset` is behind the last whole one that was returned."""

    def __init__(self, path: Path, position: Plain = None) -> None:
        self.path = path
        self.offset, self.head, self.count = 0, "", 0
        if isinstance(position, dict):
            self.offset, self.head, self.count = int(position["offset"]), str(position["head"]), int(position["count"])
        self.rest = b""  # a last line without an end
        self.size = 0
        self.too_long = 0

    def position(self) -> dict[str, Plain]:
        return {"offset": self.offset, "head": self.head, "count": self.count}

    def lines(self) -> Iterator[list[bytes]]:
        """The whole lines from the position on, in chunks; raises `Rewritten` if the file is another one."""
        with reading.open_path(self.path, regular=True) as file:
            start = file.read(HEAD)
            file.seek(0, 2)
            self.size = file.tell()
            if self.offset and (self.size < self.offset or self._head(start) != self.head):
                raise Rewritten
            file.seek(self.offset)
            rest = b""
            while data := file.read(CHUNK):
                if reading.is_empty(data) and (after := reading.skip_hole(file, place := file.tell())) > place:
                    self.too_long += 1
                    self.offset, rest = after, b""
                    continue
                whole, newline, left = (rest + data).rpartition(b"\n")
                rest = left if newline else rest + data
                if len(rest) > LONGEST:
                    self.too_long += 1
                    self.offset += len(rest)
                    rest = b""
                if newline:
                    self.offset += len(whole) + 1
                    self.head = self._head(start)
                    yield whole.split(b"\n")
            self.rest = rest

    def _head(self, start: bytes) -> str:
        """A digest of the first bytes, as many of them as have been read."""
        return blake2b(start[: min(HEAD, self.offset)], digest_size=8).hexdigest()
