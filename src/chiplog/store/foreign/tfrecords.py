"""TFRecords: frames with two checksums each, read a chunk at a time and checked in columns.

A frame is its length (8 bytes), the checksum of these, the data, and the checksum of the data. A frame whose checksum
does not match is skipped and reported; if its length is damaged, the next whole frame is searched for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chiplog.core.files import reading
from chiplog.store.tfrecord_crc import crc32c, table

CHUNK = 2 << 20
LARGEST = 256 << 20  # bytes of a frame; a longer one is not read
HEAD, FOOT = 12, 4
_LENGTH = struct.Struct("<Q")


class Frames(NamedTuple):
    """The whole frames of a chunk: `data[start:end]` for each, and the byte of the file behind the last one."""

    data: bytes
    spans: list[tuple[int, int]]
    end: int


class Reader:
    """Reads the frames of a file from a byte on; `damage` are the bytes that were skipped, `unfinished` is how many are
    left at the end."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self._offset = offset
        self._heads: dict[bytes, int] = {}  # lengths whose checksums have been checked
        self.damage: list[tuple[int, int]] = []
        self.unfinished = 0

    def read(self) -> Iterator[Frames]:
        with reading.open_path(self._path, regular=True) as file:
            file.seek(self._offset)
            rest, size = b"", CHUNK
            while True:
                new = file.read(size)
                if new and reading.is_empty(new) and (after := reading.skip_hole(file, place := file.tell())) > place:
                    self._damaged(0, after - self._offset)
                    self._offset, rest = after, b""
                    continue
                data = rest + new
                spans, used = self._split(data, last=not new)
                self._check(data, spans)
                start, self._offset = self._offset, self._offset + used
                if spans or used:
                    yield Frames(data, [span for span in spans if span[1]], self._offset)
                rest = data[used:]
                if not new:
                    self.unfinished = len(rest)
                    return
                # A frame that is longer than a chunk: read all of it at once.
                size = max(CHUNK, self._missing(rest)) if self._offset == start else CHUNK

    def _split(self, data: bytes, last: bool) -> tuple[list[tuple[int, int]], int]:
        """The places of the frames in a chunk, and how many bytes they take."""
        spans: list[tuple[int, int]] = []
        at, end, heads = 0, len(data), self._heads
        unpack = _LENGTH.unpack_from
        while end - at >= HEAD:
            head = data[at : at + HEAD]
            length = heads.get(head)
            if length is None:
                (length,) = unpack(head)
                if length > LARGEST or _masked(crc32c(head[:8])) != int.from_bytes(head[8:], "little"):
                    at = self._resume(data, at, last)
                    continue
                if len(heads) < 65_536:
                    heads[head] = length
            begin = at + HEAD
            after = begin + length + FOOT
            if after > end:
                break
            spans.append((begin, begin + length))
            at = after
        return spans, at

    def _resume(self, data: bytes, at: int, last: bool) -> int:
        """The next byte at which a whole frame starts; everything before it is damage."""
        start = at + 1
        window = np.frombuffer(data, np.uint8)[start:]
        if len(window) >= HEAD:
            crc = np.full(len(window) - HEAD + 1, 0xFFFFFFFF, np.uint32)
            count = len(crc)
            for byte in range(8):
                crc = _TABLE[(crc ^ window[byte : byte + count]) & 255] ^ (crc >> np.uint32(8))
            wanted = np.zeros(count, np.uint32)
            for byte in range(4):
                wanted |= window[8 + byte : 8 + byte + count].astype(np.uint32) << np.uint32(8 * byte)
            for place in np.flatnonzero(_masked_array(~crc) == wanted).tolist():
                (length,) = _LENGTH.unpack_from(data, start + place)
                if length <= LARGEST:
                    self._damaged(at, start + place)
                    return start + place
        end = len(data) if last else max(start, len(data) - HEAD + 1)
        self._damaged(at, end)
        return end

    def _damaged(self, start: int, end: int) -> None:
        start, end = start + self._offset, end + self._offset
        if self.damage and self.damage[-1][1] == start:
            self.damage[-1] = self.damage[-1][0], end
        else:
            self.damage.append((start, end))

    def _check(self, data: bytes, spans: list[tuple[int, int]]) -> None:
        """Compare the checksums of all frames, those of equal length together; a damaged one becomes (0, 0)."""
        if not spans:
            return
        places = np.array(spans, np.int64)
        lengths = places[:, 1] - places[:, 0]
        whole = np.frombuffer(data, np.uint8)
        for length in np.unique(lengths).tolist():
            chosen = np.flatnonzero(lengths == length)
            if length > 4096 or len(chosen) < 8:
                bad = [
                    at
                    for at in chosen.tolist()
                    if _masked(crc32c(data[spans[at][0] : spans[at][1]]))
                    != int.from_bytes(data[spans[at][1] : spans[at][1] + FOOT], "little")
                ]
            else:
                starts = places[chosen, 0]
                crc = np.full(len(chosen), 0xFFFFFFFF, np.uint32)
                for byte in range(length):
                    crc = _TABLE[(crc ^ whole[starts + byte]) & 255] ^ (crc >> np.uint32(8))
                wanted = np.zeros(len(chosen), np.uint32)
                for byte in range(4):
                    wanted |= whole[starts + length + byte].astype(np.uint32) << np.uint32(8 * byte)
                bad = chosen[_masked_array(~crc) != wanted].tolist()
            for at in sorted(bad):
                self._damaged(spans[at][0] - HEAD, spans[at][1] + FOOT)
                spans[at] = 0, 0

    @staticmethod
    def _missing(rest: bytes) -> int:
        if len(rest) < HEAD:
            return CHUNK
        (length,) = _LENGTH.unpack_from(rest)
        return int(min(length, LARGEST)) + HEAD + FOOT


def _masked(crc: int) -> int:
    return (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF


def _masked_array(crc: NDArray[np.uint32]) -> NDArray[np.uint32]:
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return rotated + np.uint32(0xA282EAD8)


_TABLE = np.array(table(), np.uint32)
