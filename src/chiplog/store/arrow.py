"""Arrow columns as numpy arrays. Arrow's own conversions would import pandas, which takes half a second."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_KINDS = {"int8": np.int8, "int32": np.int32, "int64": np.int64, "double": np.float64}


def numbers(column: Any, missing: float | None = None) -> Any:
    """An array of numbers, or a chunked one; `missing` replaces nulls, which are an error without it."""
    kind = np.dtype(_KINDS[str(column.type)])
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = [
        np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * kind.itemsize)
        for chunk in chunks
        if len(chunk)
    ]
    whole = found[0] if len(found) == 1 else np.concatenate(found) if found else np.empty(0, kind)
    if not column.null_count:
        return whole
    if missing is None:
        raise ValueError("a number is missing")
    return np.where(truths(column.is_valid()), whole, missing)


def truths(column: Any) -> npt.NDArray[np.bool_]:
    """An array of booleans without nulls."""
    found: npt.NDArray[np.bool_] = numbers(column.cast("int8")) != 0
    return found


def text(said: str) -> pa.StringScalar:
    """A string as Arrow compares it."""
    data = said.encode("utf-8", "surrogatepass")
    ends = np.array([0, len(data)], np.int32)
    return pa.StringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(data))[0]
