"""LevelDB's log, byte by byte: records of any size, damage, and a record that is being written."""

from __future__ import annotations

import struct
from pathlib import Path
from zlib import crc32

import pytest

from chiplog.store.foreign.leveldb_log import BLOCK, LogReader

HEAD = 7


def piece(kind: int, body: bytes) -> bytes:
    return struct.pack("<IHB", crc32(body, crc32(bytes([kind]))), len(body), kind) + body


def log_of(*records: bytes) -> bytes:
    """The bytes of a log: a record that does not fit into its block is cut into pieces."""
    data = b""
    for record in records:
        rest, first = record, True
        while True:
            left = BLOCK - len(data) % BLOCK
            if left < HEAD:
                data += bytes(left)
                continue
            body, rest = rest[: left - HEAD], rest[left - HEAD :]
            data += piece(
                {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[first, not rest], body
            )
            first = False
            if not rest:
                break
    return data


def read(path: Path, data: bytes, offset: int = 0) -> tuple[list[bytes], LogReader]:
    path.write_bytes(data)
    reader = LogReader(path, offset)
    return list(reader.read()), reader


@pytest.mark.parametrize("size", [0, 1, BLOCK - HEAD - 1, BLOCK - HEAD, BLOCK - HEAD + 1, 5 * BLOCK])
def test_records_of_all_sizes_come_back(tmp_path: Path, size: int) -> None:
    """Whether they fit into a block or not, and with a block's end that is too short for a piece."""
    records = [b"a" * size, b"b", b"c" * 100]
    read_back, reader = read(tmp_path / "log", log_of(*records))
    assert read_back == records
    assert (reader.damaged, reader.unfinished) == (0, 0)


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """The offset is between two records, and a record that is half written is left for the next time."""
    path, data = tmp_path / "log", log_of(b"one", b"two", b"three")
    first, reader = read(path, data[:-2])
    assert first == [b"one", b"two"] and reader.unfinished == HEAD + len(b"thr")
    rest, _ = read(path, data, reader.offset)
    assert rest == [b"three"]


def test_a_damaged_record_is_skipped_and_counted(tmp_path: Path) -> None:
    """The next whole one is found in the same block."""
    data = bytearray(log_of(b"one", b"damaged", b"three"))
    data[HEAD + 3 + HEAD] ^= 1
    records, reader = read(tmp_path / "log", bytes(data))
    assert records == [b"one", b"three"]
    assert reader.damaged == HEAD + len(b"damaged")


def test_the_end_of_a_record_without_its_start_is_damage(tmp_path: Path) -> None:
    """It is not taken for a record of its own."""
    records, reader = read(tmp_path / "log", piece(4, b"an end") + piece(1, b"whole"))
    assert records == [b"whole"] and reader.damaged == len(b"an end")


def test_a_hole_is_passed_over(tmp_path: Path) -> None:
    """Records before and behind a TiB of a sparse file are read, and the hole is counted as damage."""
    path = tmp_path / "log"
    path.write_bytes(log_of(b"first"))
    with path.open("r+b") as file:
        file.seek(1 << 40)
        file.write(log_of(b"second"))
    log = LogReader(path, 0)
    assert list(log.read()) == [b"first", b"second"]
    assert log.damaged == (1 << 40) - HEAD - len(b"first")
