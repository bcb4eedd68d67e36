"""The files of a part: their schemas, their metadata, and the seal of their footers.

Parquet has checksums for its pages but none for its footer, so each file of a part has one more, right before the
footer, where other readers do not look.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from chiplog.core.files import reading
from chiplog.store import arrow
from chiplog.store.layout import Segment

KINDS = ("clock", "spans", "rows", "points")  # points is published last: if it exists, the others do
BLOCKS = "blocks"  # one more, of parts with long series; older ones do not have it
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
BLOCK = pa.schema(
    [
        ("name", pa.string()),
        ("low", pa.int64()),  # of steps: double where those are
        ("high", pa.int64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
        ("total", pa.float64()),
        ("finite", pa.int64()),
        ("count", pa.int64()),
        ("nans", pa.int64()),
    ]
)
_NEEDED = {
    "clock": {"seq", "time"},
    "spans": {"id", "parent", "name", "thread", "start", "duration", "step", "failed"},  # older ones have no more
    "rows": {*ROWS.names},
    "points": {*POINTS.names},
    BLOCKS: {*BLOCK.names},
}
_TEXTS = {"name", "kind", "record", "exact", "thread", "tags", "error"}
_NUMBERS = {
    **dict.fromkeys(("seq", "time", "id", "parent", "start", "duration"), ("int64",)),
    "step": ("int64", "double"),
    "value": ("double", "float"),
    **dict.fromkeys(("low", "high"), ("int64", "double")),
    **dict.fromkeys(("min", "max", "total"), ("double",)),
    **dict.fromkeys(("finite", "count", "nans"), ("int64",)),
    "failed": ("bool",),
}
GROUP = 1 << 20  # rows per row group at most
# A segment has 64 MiB, with room to spare here; a part that holds more is not one of ours, and the segment is read.
MOST_ROWS = {"clock": 1 << 23, "spans": 1 << 24, "rows": 1 << 23, "points": 1 << 25}
MOST_BYTES = 1 << 30
LONGEST_FOOTER = 128 << 20
_MAGIC = b"PAR1"
_SEAL = 4  # bytes: the CRC-32 of everything after it


class PartInfo(msgspec.Struct):
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


def file_of(folder: Path, segment: Segment, kind: str) -> Path:
    """The file of a part that holds one of `KINDS`."""
    return folder / f"{segment.stem}.{kind}.parquet"


def open_file(path: Path) -> pq.ParquetFile:
    """Open a file of a part; raises OSError if its footer is not as written, or it holds more than we ever write."""
    run, name = path.parents[1], f"{path.parent.name}/{path.name}"
    with reading.open_file(run, name) as file:
        end = _footer(file)
        length = os.fstat(file.fileno()).st_size - end
        if length > LONGEST_FOOTER:
            raise OSError(f"the footer of {path.name} has {length:,} bytes")
        file.seek(end - _SEAL)
        seal, footer = file.read(_SEAL), file.read(length)
    if crc32(footer).to_bytes(_SEAL, "little") != seal:
        raise OSError(f"the footer of {path.name} does not match its CRC")
    opened = pq.ParquetFile(
        arrow.open_native(run, name),
        page_checksum_verification=True,
        thrift_string_size_limit=LONGEST_FOOTER,
        thrift_container_size_limit=LONGEST_FOOTER,
    )
    kind = path.name.split(".")[1]
    _check_size(opened.metadata, path.name, MOST_ROWS.get(kind, GROUP))
    _check_schema(opened.schema_arrow, kind)
    return opened


def _check_schema(schema: pa.Schema, kind: str) -> None:
    """Raise OSError if a column is missing, or has a type that we never give it."""
    if missing := _NEEDED.get(kind, set()) - {*schema.names}:
        raise OSError(f"it has no column {min(missing)!r}")
    for field in schema:
        is_text = pa.types.is_string(field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        right = is_text if field.name in _TEXTS else str(field.type) in _NUMBERS.get(field.name, (str(field.type),))
        if kind in _NEEDED and not right:
            raise OSError(f"its column {field.name!r} holds {field.type}")


def _check_size(about: pq.FileMetaData, name: str, most: int) -> None:
    """Raise OSError for a file that is small but large inside: more rows than a segment could hold."""
    if about.num_rows > most:
        raise OSError(f"{name} has {about.num_rows:,} rows, and a part has at most {most:,}")
    groups = [about.row_group(at) for at in range(about.num_row_groups)]
    if sum(group.num_rows for group in groups) != about.num_rows or any(group.num_rows > GROUP for group in groups):
        raise OSError(f"{name} has row groups that were not written by chiplog")
    if sum(group.total_byte_size for group in groups) > MOST_BYTES:
        raise OSError(f"{name} has more than {MOST_BYTES:,} bytes inside")


def seal(file: BinaryIO) -> None:
    """Insert the CRC-32 of a footer before it; Parquet finds the footer from the end, and pages by their offsets."""
    end = _footer(file)
    file.seek(end)
    footer = file.read()
    file.seek(end)
    file.write(crc32(footer).to_bytes(_SEAL, "little") + footer)


def _footer(file: BinaryIO | FileIO) -> int:
    """Where the footer of a Parquet file starts."""
    end = file.seek(-8, os.SEEK_END)
    length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
    if magic != _MAGIC or end - length < _SEAL:
        raise OSError("not a Parquet file")
    return end - length
