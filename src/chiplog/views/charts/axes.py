"""Axes: the position of values on a scale, and tidy ticks with distinct labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chiplog.store.points.columns import Floats


class Axis(NamedTuple):
    low: float
    high: float
    log: bool
    ticks: list[float]
    labels: list[str]

    def shares(self, values: Floats) -> Floats:
        """The position of each value on the scale, 0 to 1 if it is within; NaN if it has none."""
        finite = np.where(np.isfinite(values), values, np.nan)
        if self.log:
            finite = np.log10(np.where(finite > 0, finite, np.nan))
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        # Halves: the difference of two doubles may overflow.
        return (finite / 2 - low / 2) / (high / 2 - low / 2)

    def places(self, values: Floats, cells: int) -> Floats:
        """The cell of each value, counted from the low end; NaN if it has none."""
        return np.clip(np.rint(self.shares(values) * (cells - 1)), 0, cells - 1)


def axis_of(values: Floats, log: bool, *, most: int, whole: bool = False) -> Axis:
    """An axis that covers all values, with up to `most` ticks at tidy positions.

    With `whole` there are no ticks between integers if all values are integers.
    """
    low, high = float(values.min()), float(values.max())
    if log:
        if high / low < 1 + 1e-9:
            low, high = low / 1.5, max(high, min(high, 1e308) * 1.5)  # within the range of a double
        ticks = _log_ticks(low, high, most) or [low, high]
        return Axis(low, high, True, ticks, [f"{tick:.4g}" for tick in ticks])
    low, high = max(min(low, 1e300), -1e300), max(min(high, 1e300), -1e300)
    whole = whole and max(-low, high) < 2**50 and bool((values == np.rint(values)).all())
    if high - low <= max(1e-12 * max(abs(low), abs(high)), 1e-300):  # all the same
        room = 1.0 if whole else abs(low) * 0.1 or 1.0
        low, high = low - room, high + room
    step = max(_tidy_step(low, high, most), 1.0 if whole else 0.0)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = [number * step for number in range(first, last + 1)] or [low]
    return Axis(low, high, False, ticks, _labels(ticks, step))


def _tidy_step(low: float, high: float, most: int) -> float:
    """The distance between ticks: 1, 2 or 5 times a power of ten, if that gives enough of them."""
    least = max(2, most - 2 if most > 4 else most - 1)
    ten = math.floor(math.log10(high - low))
    best = (0, 10.0**ten)  # count, step
    for tidy in ((1, 2, 5), (2.5,), (4,), (3,), (1.5,)):
        for mantissa in tidy:
            for power in (ten - 2, ten - 1, ten):
                step = float(f"{mantissa}e{power}")
                count = math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1
                if best[0] < count <= most:
                    best = (count, step)
        if best[0] >= least:
            break
    return best[1]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten if there are enough; otherwise 1 and 3, or 1, 2 and 5, of each; otherwise linear ticks."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    apart = max(1, math.ceil((math.floor(math.log10(high)) - math.ceil(math.log10(low)) + 1) / most))
    best: list[float] = []
    for powers, digits in (
        (range(math.ceil(math.log10(low)), last + 1, apart), (1,)),
        (range(first, last + 1), (1, 3)),
        (range(first, last + 1), (1, 2, 5)),
    ):
        ticks = [tick for power in powers for digit in digits if low <= (tick := float(f"{digit}e{power}")) <= high]
        if len(ticks) > most:
            break
        best = ticks
        if len(best) >= max(2, most - 3):
            return best
    if len(best) > 1 and high / low >= 10:
        return best
    step = _tidy_step(low, high, most)
    ticks = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [tick for tick in ticks if tick > 0]


def _labels(ticks: Sequence[float], step: float) -> list[str]:
    """Tick labels, with as many digits as it takes to make them distinct."""
    largest = max((abs(tick) for tick in ticks), default=0.0)
    unit, sign = 1.0, ""
    for candidate, name in ((1e4, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")):
        if candidate <= largest < 1e15:
            unit, sign = (1e3 if name == "k" else candidate), name
    if not sign and (largest >= 1e4 or 0 < largest < 1e-3):
        digits = max(0, math.floor(math.log10(largest)) - _last_digit(step))
        return [f"{tick:.{digits}e}" if tick else "0" for tick in ticks]
    digits = max(0, -_last_digit(step / unit))
    return [f"{tick / unit:.{digits}f}{sign}" if tick else "0" for tick in ticks]


def _last_digit(step: float) -> int:
    """The power of ten of a tidy step's last digit: -1 for 0.2, -2 for 0.25."""
    mantissa, power = f"{step:.1e}".split("e")
    return int(power) - (not mantissa.endswith("0"))
