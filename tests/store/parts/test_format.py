"""The files of a part."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chiplog.store.layout import Segment
from chiplog.store.parts.format import file_of, open_file, seal


def sealed(path: Path) -> Path:
    pq.write_table(pa.table({"x": [1, 2, 3]}), str(path))
    with path.open("r+b") as file:
        seal(file)
    return path


def test_a_sealed_file_is_ordinary_parquet(tmp_path: Path) -> None:
    """The seal stands where other readers do not look."""
    path = sealed(tmp_path / "x.parquet")
    assert pq.read_table(str(path))["x"].to_pylist() == open_file(path).read()["x"].to_pylist() == [1, 2, 3]


def test_a_footer_that_was_changed_is_refused(tmp_path: Path) -> None:
    """As is one without a seal, and what is not Parquet at all."""
    path = sealed(tmp_path / "x.parquet")
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match="does not match its CRC"):
        open_file(path)
    pq.write_table(pa.table({"x": [1]}), str(path))
    with pytest.raises(OSError, match="does not match its CRC"):
        open_file(path)
    path.write_bytes(b"nonsense, not Parquet")
    with pytest.raises(OSError, match="not a Parquet file"):
        open_file(path)


def test_files_are_named_after_their_segment_and_kind(tmp_path: Path) -> None:
    """Next to each other in `parts`."""
    assert file_of(tmp_path / "parts", Segment(0, 1, 0), "rows") == tmp_path / "parts" / "r00000-a01-0000.rows.parquet"
