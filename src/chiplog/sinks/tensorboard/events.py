"""Events as TensorBoard stores them: protocol buffers, framed as TFRecords. Turns values into bytes.

One event holds all scalars of a row, and each tag is encoded once: from then on a scalar costs its four bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from chiplog.core.records import Number, Plain
from chiplog.store.protobuf.writer import double, integer, message, utf8, varint
from chiplog.store.tfrecord_crc import crc32c

VERSION = b"brain.Event:2"
LONG = 256  # bytes of a tag that is not worth caching
MOST = 100_000  # tags in the cache; beyond, it starts from scratch
_DT_FLOAT, _DT_STRING = 1, 7
_SUCCESS = 1


class Tags:
    """The tags of scalars, each encoded once: the bytes before a scalar in its event."""

    def __init__(self) -> None:
        self._encoded: dict[str, bytes] = {}

    def scalars(self, time: int, step: int, row: Mapping[str, Number]) -> bytes:
        """A row of scalars as one framed event, as 32-bit floats."""
        encoded = self._encoded
        try:
            tags = [encoded[name] for name in row]
        except KeyError:
            tags = [self._tag(name) for name in row]
        try:
            floats = struct.pack(f"<{len(row)}f", *row.values())
        except (OverflowError, struct.error):
            floats = struct.pack(f"<{len(row)}f", *map(_float, row.values()))
        values = b"".join(
            [piece for tag, at in zip(tags, range(0, len(floats), 4)) for piece in (tag, floats[at : at + 4])]  # noqa: B905
        )
        return _framed(_head(time, step) + message(5, values))

    def _tag(self, name: str) -> bytes:
        tag = self._encoded.get(name)
        if tag is None:
            field = message(1, utf8(name)) + b"\x15"
            tag = b"\x0a" + varint(len(field) + 4) + field
            if len(tag) < LONG:
                if len(self._encoded) >= MOST:
                    self._encoded.clear()
                self._encoded[name] = tag
        return tag


def version(time: int) -> bytes:
    """The first event of a file."""
    return _framed(double(1, time / 1e9) + message(3, VERSION))


def text(time: int, step: int, name: str, content: str) -> bytes:
    tensor = integer(1, _DT_STRING) + message(2, message(2, integer(1, 1))) + message(8, utf8(content))
    return _event(time, step, name, message(8, tensor) + _plugin("text", b""))


def histogram(
    time: int,
    step: int,
    name: str,
    edges: Sequence[float],
    counts: Sequence[float],
    sums: tuple[float, float] | None = None,
) -> bytes:
    """`sums` are the sum and the sum of squares of the values; without them, those of the middles of the bins."""
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    total = sum(counts)
    first, second = sums or (
        sum(count * middle for count, middle in zip(counts, middles, strict=True)),
        sum(count * middle * middle for count, middle in zip(counts, middles, strict=True)),
    )
    data = b"".join(
        (
            double(1, edges[0]),
            double(2, edges[-1]),
            double(3, total),
            double(4, first),
            double(5, second),
            message(6, struct.pack(f"<{len(counts)}d", *edges[1:])),
            message(7, struct.pack(f"<{len(counts)}d", *counts)),
        )
    )
    return _event(time, step, name, message(5, data))


def image(time: int, step: int, name: str, data: bytes) -> bytes:
    """An image, as it was encoded."""
    width, height = dimensions(data)
    image = integer(1, height) + integer(2, width) + integer(3, 3) + message(4, data)
    return _event(time, step, name, message(4, image))


def session_start(time: int, config: Mapping[str, Plain]) -> bytes:
    """The hyperparameters, for the HParams page."""
    hparams = b"".join(message(1, message(1, utf8(name)) + message(2, _value(one))) for name, one in config.items())
    return _hparams(time, "session_start_info", message(3, hparams + double(5, time / 1e9)))


def session_end(time: int) -> bytes:
    return _hparams(time, "session_end_info", message(4, integer(1, _SUCCESS) + double(2, time / 1e9)))


def dimensions(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG, GIF or JPEG; (0, 0) for other formats."""
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
    """From the frame header, after segments that each state their length."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        if 0xC0 <= data[at + 1] <= 0xCF and data[at + 1] not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def _hparams(time: int, what: str, info: bytes) -> bytes:
    empty = integer(1, _DT_FLOAT) + message(2, message(2, integer(1, 1))) + message(5, bytes(4))
    return _event(time, 0, f"_hparams_/{what}", message(8, empty) + _plugin("hparams", info))


def _value(value: Plain) -> bytes:
    """A `google.protobuf.Value`."""
    if isinstance(value, bool):
        return integer(4, value)
    if isinstance(value, (int, float)):
        return double(2, _float(value))
    return message(3, utf8(str(value)))


def _plugin(name: str, content: bytes) -> bytes:
    return message(9, message(1, message(1, name.encode()) + message(2, content)))


def _event(time: int, step: int, name: str, value: bytes) -> bytes:
    """One value of a summary, framed."""
    return _framed(_head(time, step) + message(5, message(1, message(1, utf8(name)) + value)))


def _head(time: int, step: int) -> bytes:
    return double(1, time / 1e9) + integer(2, step)


def _framed(data: bytes) -> bytes:
    return b"%b%b%b" % (_length(len(data)), data, struct.pack("<I", _masked(crc32c(data))))


@lru_cache(4096)
def _length(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + struct.pack("<I", _masked(crc32c(length)))


def _masked(crc: int) -> int:
    return (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF


def _float(value: object) -> float:
    """A number as a 32-bit float, infinite if it is beyond its range."""
    try:
        number = float(value)  # type: ignore[arg-type]
        struct.pack("<f", number)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")  # type: ignore[operator]
    except (TypeError, ValueError):
        return float("nan")
    return number
