"""CRC-32C, the checksum of TFRecords, without a package."""

from __future__ import annotations

import struct
from functools import cache

POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
_WORD = struct.Struct("<Q")


def crc32c(data: bytes) -> int:
    one, two, three, four, five, six, seven, eight = _tables()
    crc, whole = 0xFFFFFFFF, len(data) & ~7
    for (word,) in _WORD.iter_unpack(data[:whole]):
        crc ^= word
        crc = (
            eight[crc & 255] ^ seven[crc >> 8 & 255] ^ six[crc >> 16 & 255] ^ five[crc >> 24 & 255]
            ^ four[crc >> 32 & 255] ^ three[crc >> 40 & 255] ^ two[crc >> 48 & 255] ^ one[crc >> 56]
        )  # fmt: skip
    for byte in data[whole:]:
        crc = one[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def table() -> list[int]:
    """What each byte makes of a checksum."""
    return _tables()[0]


@cache
def _tables() -> list[list[int]]:
    """For eight bytes at once: the n-th moves a byte past n more."""
    tables = [[_divide(byte) for byte in range(256)]]
    for _ in range(7):
        tables.append([tables[0][crc & 255] ^ (crc >> 8) for crc in tables[-1]])
    return tables


def _divide(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc
