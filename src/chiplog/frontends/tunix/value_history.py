"""Every value of one metric, in eight bytes per number, and their means."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Any

from chiplog.core.values import convert as values
from chiplog.core.values.host_arrays import on_host


class ValueHistory:
    """Numbers or vectors in the order they were appended.

    A value on a device is kept as it is, and read once it has arrived or is needed. A mean costs as much as the values
    since the last call, however long the history is.
    """

    def __init__(self, on_device: Callable[[Any], bool]) -> None:
        self._on_device = on_device
        self._numbers = array("d")
        self._later: dict[int, Any] = {}  # by place
        self._vectors: dict[int, Any] = {}  # by place; the number there is NaN
        self._folded = self._count = 0
        self._sum = 0.0
        self._log_sum = 0.0

    def __len__(self) -> int:
        return len(self._numbers)

    def append(self, value: Any) -> None:
        """Append a number or a vector; raises `TypeError` for anything else."""
        if type(value) is float:
            self._numbers.append(value)
            return
        if self._on_device(value):
            self._later[len(self._numbers)] = value
            self._numbers.append(math.nan)
            self._settle(2)
            return
        self._numbers.append(self._read(len(self._numbers), value))

    def values(self) -> array[float]:
        """A copy of all numbers, with NaN in the place of a vector."""
        self._settle()
        return self._numbers[:]

    def array(self) -> Any:
        """All values as a numpy array: vectors are its rows or, if their shapes differ, its elements."""
        import numpy

        numbers = self.values()
        if not self._vectors:
            return numpy.array(numbers)
        each = [self._vectors.get(place, number) for place, number in enumerate(numbers)]
        if len({numpy.shape(one) for one in each}) == 1:
            return numpy.stack(each)
        mixed = numpy.empty(len(each), dtype=object)
        mixed[:] = each
        return mixed

    def mean(self) -> float:
        """The mean of all numbers, including those in vectors."""
        self._fold()
        return self._sum / self._count if self._count else math.nan

    def geometric_mean(self) -> float:
        """exp of the mean of the logarithms, which is how perplexities are averaged."""
        self._fold()
        return _exp(self._log_sum / self._count) if self._count else math.nan

    def _fold(self) -> None:
        self._settle()
        for place in range(self._folded, len(self._numbers)):
            vector = self._vectors.get(place)
            for number in (self._numbers[place],) if vector is None else vector.ravel().tolist():
                self._sum += number
                self._log_sum += _log(number)
                self._count += 1
        self._folded = len(self._numbers)

    def _read(self, place: int, value: Any) -> float:
        """A value as a number; NaN for a vector, which is stored separately."""
        if not hasattr(value, "shape") and not isinstance(value, (list, tuple)):
            return _double(value)
        if (number := values.number(value)) is not None:
            return _double(number)
        import numpy

        try:
            self._vectors[place] = numpy.asarray(on_host(value), dtype=float).copy()
        except (TypeError, ValueError):
            raise TypeError(f"{values.text(value)} is not a number") from None
        return math.nan

    def _settle(self, most: int | None = None) -> None:
        """Read the values on a device: all of them, or at most so many of those that have arrived."""
        for place in list(self._later)[:most]:
            if most is not None and self._on_device(self._later[place]):
                return
            self._numbers[place] = self._read(place, self._later.pop(place))


def _exp(number: float) -> float:
    """e to a power; infinity if no double is large enough."""
    try:
        return math.exp(number)
    except OverflowError:
        return math.inf


def _log(number: float) -> float:
    if number > 0:
        return math.log(number)
    return -math.inf if number == 0 else math.nan


def _double(value: Any) -> float:
    number = values.number(value)
    if number is None:
        raise TypeError(f"{values.text(value)} is not a number")
    return values.double(number)
