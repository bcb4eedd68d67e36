"""Parquet files of others: regular files only, and nothing is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chiplog.store.foreign.parquet_file import open_parquet


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "größe \n.parquet"
    pq.write_table(pa.table({"step": [1, 2, 3], "loss": [0.5, None, 0.25]}), path)
    return path


def test_a_table_is_read(table: Path) -> None:
    """By any name, and after the file has been replaced on disk: it is the one that was opened."""
    with open_parquet(table) as opened:
        table.unlink()
        assert opened.metadata.num_rows == 3 and opened.read().column("loss").to_pylist() == [0.5, None, 0.25]


def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    """A pipe without a writer would hang its reader forever."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "absent", Path("/dev/zero")):
        with pytest.raises(OSError):
            open_parquet(path)


def test_a_damaged_file_is_refused(table: Path, tmp_path: Path) -> None:
    """Cut anywhere, empty, or never a table."""
    data = table.read_bytes()
    damaged = tmp_path / "damaged.parquet"
    for cut in (b"", b"step,loss\n1,2\n", data[:4], data[: len(data) // 2], data[:-1], data[:-8] + b"\xff" * 8):
        damaged.write_bytes(cut)
        with pytest.raises(pa.ArrowException):
            open_parquet(damaged)
