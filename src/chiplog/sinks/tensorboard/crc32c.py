"""CRC-32C, the checksum of TFRecords, without a package."""

from __future__ import annotations

from functools import cache

POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed


def crc32c(data: bytes) -> int:
    table = _table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@cache
def _table() -> list[int]:
    return [_divide(byte) for byte in range(256)]


def _divide(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
    return crc
