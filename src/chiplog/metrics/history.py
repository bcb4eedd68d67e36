"""Every value of one metric, eight bytes each, with its means at hand."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Any

from chiplog.core import values


class History:
    """Values in the order they came. One that is still on a device is kept as it is, and read when it has arrived or
    somebody looks. The means cost what has come since the last look, however long the history is."""

    def __init__(self, on_device: Callable[[Any], bool]) -> None:
        self._on_device = on_device
        self._numbers = array("d")
        self._later: dict[int, Any] = {}  # by place
        self._folded = 0
        self._sum = 0.0
        self._log_sum = 0.0

    def __len__(self) -> int:
        return len(self._numbers)

    def append(self, value: Any) -> None:
        """Raises `TypeError` for what is no number."""
        if type(value) is float:
            self._numbers.append(value)
            return
        if self._on_device(value):
            self._later[len(self._numbers)] = value
            self._numbers.append(math.nan)
            self._settle(2)
            return
        self._numbers.append(_double(value))

    def values(self) -> array[float]:
        """A copy of all of them."""
        self._settle()
        return self._numbers[:]

    def mean(self) -> float:
        self._fold()
        return self._sum / len(self._numbers) if self._numbers else math.nan

    def geometric_mean(self) -> float:
        """exp of the mean of the logarithms: perplexities are averaged so."""
        self._fold()
        return exp(self._log_sum / len(self._numbers)) if self._numbers else math.nan

    def _fold(self) -> None:
        self._settle()
        for number in self._numbers[self._folded :]:
            self._sum += number
            self._log_sum += _log(number)
        self._folded = len(self._numbers)

    def _settle(self, most: int | None = None) -> None:
        """Read values that were on a device: all, or at most so many of those that have arrived."""
        for place in list(self._later)[:most]:
            if most is not None and self._on_device(self._later[place]):
                return
            self._numbers[place] = _double(self._later.pop(place))


def exp(number: float) -> float:
    """e to a power; an infinity where no double is large enough."""
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
        raise TypeError(f"{values.text(value)} is no number")
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
