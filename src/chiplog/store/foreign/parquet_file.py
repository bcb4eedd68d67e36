"""Parquet files of others: regular files only, and nothing is waited for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chiplog.core.files import reading


def open_parquet(path: Path) -> pq.ParquetFile:
    """Raises `OSError` for anything but a regular file, and `pa.ArrowException` for one that is damaged."""
    with reading.open_path(path, regular=True) as file:
        return pq.ParquetFile(pa.OSFile(reading.native_path(file, path)))
