"""Values of several numbers: a logger accepts them as one value, and a run stores them as a matrix."""

from __future__ import annotations

import math

from chiplog.core import records
from chiplog.core.values.host_arrays import on_host
from chiplog.core.values.media import Media


class Vector(Media):
    """An array or list of numbers, which may still be on a device."""

    __slots__ = ("arrays",)
    kind = records.MatrixRecord

    def __init__(self, values: object) -> None:
        self.arrays = {"values": values}

    def fields(self) -> dict[str, list[list[float]]]:
        """A list is one row; an array with more dimensions has its own rows."""
        import numpy

        array = numpy.asarray(on_host(self.arrays["values"]), dtype=float)
        return {"values": array.reshape(len(array) if array.ndim > 1 else 1, -1).tolist()}


def loggable(value: object) -> object:
    """Wrap several numbers as a vector; return anything else as it is."""
    if type(value) is float:
        return value
    shape = getattr(value, "shape", None)
    if shape is not None:
        return value if math.prod(shape) == 1 else Vector(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, (int, float)) for one in value):
        return Vector(value)
    return value
