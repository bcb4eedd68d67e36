"""Vectors and matrices among the values of a row."""

from __future__ import annotations

from typing import Any

from chiplog.core.values.media import Matrix


def array(value: Any) -> Any:
    """A vector or matrix as such; everything else is left to the engine."""
    if isinstance(value, (int, float, str, bytes)) or value is None:
        return value
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) in (1, 2) and not (len(shape) == 1 and shape[0] == 1):
        listed = value.detach().tolist() if hasattr(value, "detach") else value.tolist()
        return Matrix([listed] if len(shape) == 1 else listed)
    if isinstance(value, (list, tuple)) and value:
        if all(isinstance(one, (int, float)) for one in value):
            return Matrix([value])
        if all(isinstance(row, (list, tuple)) and all(isinstance(one, (int, float)) for one in row) for row in value):
            return Matrix(value)
    return value
