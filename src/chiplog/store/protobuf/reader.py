"""Protocol buffers, the reading side: the fields of a message, whatever their meaning."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

Field: TypeAlias = tuple[int, int, int | bytes]  # number, wire type, value; numbers of fixed width as bytes

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class BadMessage(ValueError):
    """The bytes are not a message."""


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in order, those of newer versions included; raises `BadMessage` where it is cut off."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at, end)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(data, at, end)
            yield number, kind, value
            continue
        if kind == BYTES:
            length, at = _varint(data, at, end)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise BadMessage(f"wire type {kind}")
        if at + length > end:
            raise BadMessage("cut off")
        yield number, kind, data[at : at + length]
        at += length


def by_number(data: bytes) -> dict[int, int | bytes]:
    """The last value of each field."""
    return {number: value for number, _, value in fields(data)}


def text(value: int | bytes | None) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else ""


def message(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def integer(value: int | bytes | None) -> int:
    """A signed integer of 64 bits."""
    if not isinstance(value, int):
        return 0
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value: int | bytes | None) -> float:
    """A number of fixed width, of 64 or 32 bits."""
    if isinstance(value, bytes) and len(value) in (4, 8):
        number: float = struct.unpack("<d" if len(value) == 8 else "<f", value)[0]
        return number
    return 0.0


def packed(kind: int, value: int | bytes, size: int) -> bytes:
    """The bytes of a repeated number of fixed width, which may come one by one or together."""
    if isinstance(value, bytes) and (kind == BYTES or len(value) == size):
        return value
    return b""


def varints(kind: int, value: int | bytes) -> list[int]:
    """A repeated integer, which may come one by one or together."""
    if kind == VARINT:
        return [integer(value)]
    data, numbers, at = message(value), [], 0
    while at < len(data):
        number, at = _varint(data, at, len(data))
        numbers.append(integer(number))
    return numbers


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            break
    raise BadMessage("a number is cut off")
