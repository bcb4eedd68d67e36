"""Protocol buffers, the writing side: fields as bytes, for the formats that we write without their own packages."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    """An integer of 64 bits; a negative one as its two's complement."""
    if 0 <= value < 128:
        return value.to_bytes(1, "little")
    value &= 0xFFFFFFFFFFFFFFFF
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


def integer(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def message(field: int, data: bytes) -> bytes:
    """A message inside another, or a string or bytes, which are written alike."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def utf8(text: str) -> bytes:
    """Text with lone surrogates escaped."""
    return text.encode("utf-8", "backslashreplace")
