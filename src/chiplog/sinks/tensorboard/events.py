"""Events as TensorBoard stores them: protocol buffers, framed as TFRecords. Bytes from values, and nothing else.

One event holds all scalars of a row, which makes it the cheapest correct way to say them: their tags are encoded and
checked once, and from then on a scalar costs its four bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from chiplog.core.records import Number, Plain
from chiplog.sinks.tensorboard.crc32c import START, Moved, crc32c, moved, update

VERSION = b"brain.Event:2"
LONG = 256  # bytes of a tag from which it is not worth remembering
FURTHEST = (1 << 63) - 1
_DT_FLOAT, _DT_STRING = 1, 7
_SUCCESS = 1


class Tag(NamedTuple):
    """What stands before a scalar in its event."""

    data: bytes
    crc: int  # of the data, from zero
    moved: Moved | None  # None for one that is too long


class Tags:
    """The tags of scalars, each encoded once."""

    def __init__(self) -> None:
        self._known: dict[str, Tag] = {}

    def scalars(self, time: int, step: int, row: Mapping[str, Number]) -> bytes:
        """A row of scalars as one framed event, as 32-bit floats."""
        known = self._known
        try:
            tags = [known[name] for name in row]
        except KeyError:
            tags = [self._tag(name) for name in row]
        try:
            floats = struct.pack(f"<{len(row)}f", *row.values())
        except (OverflowError, struct.error):
            floats = struct.pack(f"<{len(row)}f", *map(_float, row.values()))
        values = b"".join(
            [piece for tag, at in zip(tags, range(0, len(floats), 4)) for piece in (tag.data, floats[at : at + 4])]  # noqa: B905
        )
        head = _head(time, step) + b"\x2a" + _varint(len(values))
        return _framed(head + values, _crc(head, tags, floats))

    def _tag(self, name: str) -> Tag:
        tag = self._known.get(name)
        if tag is None:
            said = _bytes(1, _utf8(name)) + b"\x15"
            data = b"\x0a" + _varint(len(said) + 4) + said
            kept = len(data) < LONG
            tag = Tag(data, update(0, data), moved(len(data))) if kept else Tag(data, 0, None)
            if kept:
                self._known[name] = tag
        return tag


def _crc(head: bytes, tags: Sequence[Tag], floats: bytes) -> int:
    """The CRC of an event of scalars: what `crc32c` gives for it, by what is known of the tags."""
    crc = update(START, head)
    end0, end1, end2, end3 = moved(4)
    for tag, (word,) in zip(tags, struct.iter_unpack("<I", floats), strict=True):
        if tag.moved is None:
            crc = update(crc, tag.data) ^ word
        else:
            t0, t1, t2, t3 = tag.moved
            crc = t0[crc & 255] ^ t1[crc >> 8 & 255] ^ t2[crc >> 16 & 255] ^ t3[crc >> 24] ^ tag.crc ^ word
        crc = end0[crc & 255] ^ end1[crc >> 8 & 255] ^ end2[crc >> 16 & 255] ^ end3[crc >> 24]
    return crc ^ START


def version(time: int) -> bytes:
    """The first event of a file."""
    data = _double(1, time / 1e9) + _bytes(3, VERSION)
    return _framed(data, crc32c(data))


def text(time: int, step: int, name: str, said: str) -> bytes:
    tensor = _number(1, _DT_STRING) + _bytes(2, _bytes(2, _number(1, 1))) + _bytes(8, _utf8(said))
    return _event(time, step, name, _bytes(8, tensor) + _plugin("text", b""))


def histogram(
    time: int,
    step: int,
    name: str,
    edges: Sequence[float],
    counts: Sequence[float],
    sums: tuple[float, float] | None = None,
) -> bytes:
    """`sums` are the sum and the sum of squares; where only the bins are known, those of values in their middles."""
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    total = sum(counts)
    first, second = sums or (
        sum(count * middle for count, middle in zip(counts, middles, strict=True)),
        sum(count * middle * middle for count, middle in zip(counts, middles, strict=True)),
    )
    data = b"".join(
        (
            _double(1, edges[0]),
            _double(2, edges[-1]),
            _double(3, total),
            _double(4, first),
            _double(5, second),
            _bytes(6, struct.pack(f"<{len(counts)}d", *edges[1:])),
            _bytes(7, struct.pack(f"<{len(counts)}d", *counts)),
        )
    )
    return _event(time, step, name, _bytes(5, data))


def image(time: int, step: int, name: str, data: bytes) -> bytes:
    """An encoded picture, as it is."""
    width, height = dimensions(data)
    picture = _number(1, height) + _number(2, width) + _number(3, 3) + _bytes(4, data)
    return _event(time, step, name, _bytes(4, picture))


def session_start(time: int, config: Mapping[str, Plain]) -> bytes:
    """What the HParams page shows of a run."""
    hparams = b"".join(_bytes(1, _bytes(1, _utf8(name)) + _bytes(2, _value(one))) for name, one in config.items())
    return _hparams(time, "session_start_info", _bytes(3, hparams + _double(5, time / 1e9)))


def session_end(time: int) -> bytes:
    return _hparams(time, "session_end_info", _bytes(4, _number(1, _SUCCESS) + _double(2, time / 1e9)))


def dimensions(data: bytes) -> tuple[int, int]:
    """Width and height of an encoded picture; (0, 0) where it does not say so in a way that is known here."""
    if data.startswith(b"\x89PNG") and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    if data.startswith(b"GIF8") and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return width, height
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    """From the frame header, behind segments that each say how long they are."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        if 0xC0 <= data[at + 1] <= 0xCF and data[at + 1] not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def _hparams(time: int, what: str, info: bytes) -> bytes:
    nothing = _number(1, _DT_FLOAT) + _bytes(2, _bytes(2, _number(1, 1))) + _bytes(5, bytes(4))
    return _event(time, 0, f"_hparams_/{what}", _bytes(8, nothing) + _plugin("hparams", info))


def _value(value: Plain) -> bytes:
    """A `google.protobuf.Value`."""
    if isinstance(value, bool):
        return _number(4, value)
    if isinstance(value, (int, float)):
        return _double(2, _float(value))
    return _bytes(3, _utf8(str(value)))


def _plugin(name: str, content: bytes) -> bytes:
    return _bytes(9, _bytes(1, _bytes(1, name.encode()) + _bytes(2, content)))


def _event(time: int, step: int, name: str, said: bytes) -> bytes:
    """One value of a summary, framed."""
    data = _head(time, step) + _bytes(5, _bytes(1, _bytes(1, _utf8(name)) + said))
    return _framed(data, crc32c(data))


def _head(time: int, step: int) -> bytes:
    return _double(1, time / 1e9) + b"\x10" + _varint(step)


def _framed(data: bytes, crc: int) -> bytes:
    return b"%b%b%b" % (_length(len(data)), data, struct.pack("<I", _masked(crc)))


@lru_cache(4096)
def _length(size: int) -> bytes:
    said = struct.pack("<Q", size)
    return said + struct.pack("<I", _masked(crc32c(said)))


def _masked(crc: int) -> int:
    return (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF


def _varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return struct.pack("<Bd", field << 3 | 1, value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _utf8(said: str) -> bytes:
    return said.encode("utf-8", "backslashreplace")


def _float(value: object) -> float:
    """A number as a 32-bit float can say it: infinite where it is beyond."""
    try:
        double = float(value)  # type: ignore[arg-type]
        struct.pack("<f", double)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")  # type: ignore[operator]
    except (TypeError, ValueError):
        return float("nan")
    return double
