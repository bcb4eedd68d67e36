"""The framing of LevelDB's log, in which W&B stores its records: blocks of 32 KiB with checksummed pieces.

A piece that does not match its checksum is skipped, and reading continues with the next whole one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from chiplog.core.files import reading

BLOCK = 32 << 10
CHUNK = 64 * BLOCK
LARGEST = 256 << 20  # bytes of a record
_HEAD = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_TYPES = {kind: crc32(bytes([kind])) for kind in (_FULL, _FIRST, _MIDDLE, _LAST)}


class LogReader:
    """Reads the records of a log from a byte on, which must be between two records."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path, self.offset = path, offset  # behind the last whole record
        self.damaged = 0  # bytes
        self.unfinished = 0

    def read(self) -> Iterator[bytes]:
        with reading.open_path(self._path, regular=True) as file:
            base = self.offset // BLOCK * BLOCK
            file.seek(base)
            data, at = file.read(CHUNK), self.offset - base
            pieces: list[bytes] = []
            while True:
                if len(data) - at < BLOCK and (more := file.read(CHUNK)):
                    if reading.is_empty(more) and reading.is_empty(data[at:]):
                        after = reading.skip_hole(file, file.tell())
                        self.damaged += after - base - at + sum(map(len, pieces))
                        base = after // BLOCK * BLOCK
                        file.seek(base)
                        data, at, pieces, self.offset = file.read(CHUNK), after - base, [], after
                        continue
                    start = (base + at) // BLOCK * BLOCK
                    data, at, base = data[start - base :] + more, base + at - start, start
                left = BLOCK - (base + at) % BLOCK
                if left < _HEAD.size:  # the rest of a block that is too short for a piece
                    at += left
                    continue
                if at + _HEAD.size > len(data):
                    break
                crc, size, kind = _HEAD.unpack_from(data, at)
                end = at + _HEAD.size + size
                if end > len(data) and size <= left - _HEAD.size and kind in _TYPES:
                    break  # being written
                body = data[at + _HEAD.size : end]
                if size > left - _HEAD.size or kind not in _TYPES or crc32(body, _TYPES[kind]) != crc:
                    after = self._next(data, base, at)
                    self.damaged += after - at + sum(map(len, pieces))
                    at, pieces = after, []
                    self.offset = base + at
                    continue
                at = end
                if kind in (_FIRST, _FULL):
                    self.damaged += sum(map(len, pieces))
                    pieces = []
                elif not pieces:  # the middle of a record whose start is damaged
                    self.damaged += size
                    self.offset = base + at
                    continue
                pieces.append(body)
                if kind in (_FULL, _LAST):
                    record = body if len(pieces) == 1 else b"".join(pieces)
                    pieces = []
                    self.offset = base + at
                    if len(record) <= LARGEST:
                        yield record
            self.unfinished = max(0, base + len(data) - self.offset)

    @staticmethod
    def _next(data: bytes, base: int, at: int) -> int:
        """Where to continue after a damaged piece: at the next whole one in its block, or else at the next block."""
        border = min(len(data), at + BLOCK - (base + at) % BLOCK)
        if reading.is_empty(data[at:border]):
            return border
        for start in range(at + 1, border - _HEAD.size):
            if data[start + 6] in _TYPES:
                crc, size, kind = _HEAD.unpack_from(data, start)
                stop = start + _HEAD.size + size
                if stop <= border and crc32(data[start + _HEAD.size : stop], _TYPES[kind]) == crc:
                    return start
        return border
