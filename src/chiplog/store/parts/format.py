"""The files of a part: their schemas, their metadata, and the seal of their footers.

Parquet has checksums for its pages but none for its footer, so each file of a part has one more, right before the
footer, where other readers do not look.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from chiplog.store import layout
from chiplog.store.layout import Segment

KINDS = ("clock", "spans", "rows", "points")  # points is published last: if it exists, the others do
ROWS = pa.schema(
    [
        ("seq", pa.int64()),
        ("time", pa.int64()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("step", pa.float64()),
        ("record", pa.string()),
    ]
)
POINTS = pa.schema(
    [
        ("name", pa.string()),
        ("step", pa.int64()),  # double if a step of the segment is not an integer
        ("seq", pa.int64()),
        ("value", pa.float64()),
        ("exact", pa.string()),
    ]
)
_MAGIC = b"PAR1"
_SEAL = 4  # bytes: the CRC-32 of everything after it


class About(msgspec.Struct):
    """The description of a part, in the metadata of each of its files."""

    segment: str
    covers: int
    records: int
    first_time: int
    last_time: int
    last_seq: int
    first_step: int | float | None = None
    first_seq: int = -1
    last_step: int | float | None = None
    begin_step: int | float | None = None
    damage: list[tuple[int, int, str]] = []
    names: dict[str, Name] = {}


class Name(msgspec.Struct, array_like=True):
    """Where the points of a series are in a part, and the last of them."""

    count: int
    first_group: int
    last_group: int
    last_seq: int
    last: int | float | bool | str


def file_of(run: Path, segment: Segment, kind: str) -> Path:
    """The file of a part that holds one of `KINDS`."""
    return run / layout.PARTS / f"{segment.stem}.{kind}.parquet"


def open_file(path: Path) -> pq.ParquetFile:
    """Open a file of a part; raises OSError if its footer is not as written."""
    with path.open("rb") as file:
        end = _footer(file)
        file.seek(end - _SEAL)
        seal, footer = file.read(_SEAL), file.read()
    if crc32(footer).to_bytes(_SEAL, "little") != seal:
        raise OSError(f"the footer of {path.name} does not match its CRC")
    return pq.ParquetFile(path, page_checksum_verification=True)


def seal(file: BinaryIO) -> None:
    """Insert the CRC-32 of a footer before it; Parquet finds the footer from the end, and pages by their offsets."""
    end = _footer(file)
    file.seek(end)
    footer = file.read()
    file.seek(end)
    file.write(crc32(footer).to_bytes(_SEAL, "little") + footer)


def _footer(file: BinaryIO) -> int:
    """Where the footer of a Parquet file starts."""
    end = file.seek(-8, os.SEEK_END)
    length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
    if magic != _MAGIC or end - length < _SEAL:
        raise OSError("not a Parquet file")
    return end - length
