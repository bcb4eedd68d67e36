"""Arrow columns as numpy arrays, and back, and files of a run for Arrow.

Arrow's own conversions would import pandas, which takes half a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chiplog.core.files import reading

_DTYPES = {"int8": np.int8, "int32": np.int32, "int64": np.int64, "double": np.float64}


def open_native(run: Path, name: str) -> pa.NativeFile:
    """A regular file of a run that Arrow reads without Python; raises `OSError` for anything else."""
    with reading.open_file(run, name) as file:
        return pa.OSFile(reading.native_path(file, run / name))


def ints(column: pa.Array | pa.ChunkedArray, missing: int | None = None) -> NDArray[np.int64]:
    """A column of integers; `missing` replaces nulls, which are an error without it."""
    return _numbers(column, missing).astype(np.int64, copy=False)


def doubles(column: pa.Array | pa.ChunkedArray, missing: float | None = None) -> NDArray[np.float64]:
    """A column of doubles; `missing` replaces nulls, which are an error without it."""
    return _numbers(column, missing).astype(np.float64, copy=False)


def numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64] | NDArray[np.float64]:
    """A column of integers or doubles, without nulls."""
    return doubles(column) if pa.types.is_floating(column.type) else ints(column)


def booleans(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """A column of booleans, without nulls."""
    mask: NDArray[np.bool_] = ints(column.cast("int8")) != 0
    return mask


def sparse_texts(texts: Mapping[int, str], count: int) -> pa.Array:
    """A column that is null except at a few indices."""
    if not texts:
        return pa.nulls(count, pa.string())
    return pa.array([texts.get(at) for at in range(count)], pa.string())


def _numbers(column: pa.Array | pa.ChunkedArray, missing: float | None) -> NDArray[np.generic]:
    dtype = np.dtype(_DTYPES[str(column.type)])
    chunks = [chunk for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column]) if len(chunk)]
    arrays = [np.frombuffer(one.buffers()[1], dtype, len(one), one.offset * dtype.itemsize) for one in chunks]
    whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else np.empty(0, dtype)
    if not column.null_count:
        return whole
    if missing is None:
        raise ValueError("a number is missing")
    return np.where(booleans(column.is_valid()), whole, missing)
