"""Values of several numbers: a logger takes them as one value, and a run keeps them as a matrix."""

from __future__ import annotations

import math
from typing import Any

from chiplog.core import records
from chiplog.core.values.host_arrays import on_host
from chiplog.core.values.media import Media


class Vector(Media):
    """An array or list of numbers; one that is still on a device is not waited for."""

    __slots__ = ("arrays",)
    kind = records.Matrix

    def __init__(self, values: Any) -> None:
        self.arrays = {"values": values}

    def fields(self) -> dict[str, Any]:
        """One row of a list, the rows of an array with more dimensions."""
        import numpy

        array = numpy.asarray(on_host(self.arrays["values"]), dtype=float)
        return {"values": array.reshape(len(array) if array.ndim > 1 else 1, -1).tolist()}


def loggable(value: Any) -> Any:
    """A value as a run takes it: several numbers as a vector, everything else as it is."""
    if type(value) is float:
        return value
    shape = getattr(value, "shape", None)
    if shape is not None:
        return value if math.prod(shape) == 1 else Vector(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, (int, float)) for one in value):
        return Vector(value)
    return value
