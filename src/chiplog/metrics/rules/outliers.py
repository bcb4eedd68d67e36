"""The rules that are on by default: a loss or gradient norm that is no number any more, or far above its own past."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from math import inf
from typing import Any

import msgspec

from chiplog.core.protocols import Finding
from chiplog.core.records import Row
from chiplog.metrics.catalog import is_gradient_norm, is_watched

WINDOW = 128  # finite values a spike is judged by
WARM_UP = 16  # values before the first judgement
REFRESH = 32  # values between two looks at the window, which cost more than all the rest
SUSPECT = 4.0  # times the distance of the nearer quartile at the last look: worth a look at the window as it is now
DEVIATIONS = 7.5  # times the median absolute deviation of the window, from its median: a spike
LEAST = 1e-3  # of the median, the least deviation: a curve without noise is not all spikes
GRADIENTS = 4.0  # times the median, at least, for a gradient norm: those have long tails
COOL_DOWN = 100  # steps after a spike in which the next one of the same series is not told
EVIDENCE = 20  # values shown with an alert
LARGEST = sys.float_info.max


class WatchedSeries:
    """The watched names of the rows that have been seen: by patterns, or by a function. Names are judged once."""

    def __init__(self, wanted: Iterable[str] | Callable[[str], bool] = is_watched) -> None:
        self._wanted = wanted if callable(wanted) else matcher(wanted)
        self._seen: set[str] = set()
        self.names: list[str] = []

    def look(self, row: Row) -> list[str]:
        if not self._seen.issuperset(row):
            for name in row:
                if name not in self._seen:
                    self._seen.add(name)
                    if self._wanted(str(name)):
                        self.names.append(name)
        return self.names


class Outliers:
    """Alerts when a watched value becomes NaN or infinite, once until it has been finite again; and when it spikes.

    A spike is 7.5 median absolute deviations above the median of the last 128 finite values, itself excluded. They are
    looked at when a value is suspect by a threshold of 32 values ago, so that a usual row costs two comparisons.
    """

    name = "oddities"

    def __init__(self, watch: WatchedSeries | None = None) -> None:
        self._watch = watch or WatchedSeries()
        self._past: dict[str, _Past] = {}

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        found = None
        for name in self._watch.look(row):
            value = row.get(name)
            if value is None:
                continue
            past = self._past.get(name)
            if past is None:
                past = self._past[name] = _Past()
            if -LARGEST <= value <= past.suspect:
                past.bad = False
                past.values.append(value)
                past.due -= 1
                if past.due <= 0:
                    past.refresh()
            else:
                found = both(found, _judge(name, value, past, row, step))
        return found

    def state(self) -> dict[str, Any]:
        return {
            name: {"values": list(past.values), "bad": past.bad, "told": past.told if past.told > -inf else None}
            for name, past in self._past.items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, saved in state.items():
            told = -inf if saved["told"] is None else saved["told"]
            self._past[name] = _Past(saved["values"], saved["bad"], told)


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether a name fits one of these patterns."""
    known = tuple(patterns)
    return lambda name: any(fnmatchcase(name, pattern) for pattern in known)


def _judge(name: str, value: float, past: _Past, row: Row, step: int | float) -> Finding | None:
    """What there is to say about a value that is not finite, or suspect."""
    if value - value != 0:
        told, past.bad = past.bad, True
        shown = evidence(name, value, past.values, row, step)
        return None if told else Finding(f"{name} is {value}", "error", f"at step {step}", shown, "non-finite")
    middle, spread = centre(past.values)
    limit = middle + DEVIATIONS * max(spread, LEAST * abs(middle), 1e-12)
    if is_gradient_norm(name):
        limit = max(limit, GRADIENTS * middle)
    shown = {**evidence(name, value, past.values, row, step), "limit": limit}
    past.bad = False
    past.values.append(value)
    past.due -= 1
    if value <= limit or past.cooling(step):
        return None
    return Finding(f"{name} spikes: {value:.4g}", "warn", f"at step {step}, {middle:.4g} before", shown, "spike")


def both(one: Finding | None, other: Finding | None) -> Finding | None:
    """What was found in one row, of which each is told: a loss and its gradients spike together."""
    if one is None or other is None:
        return one or other
    return msgspec.structs.replace(one, beside=(*one.beside, other, *other.beside))


def evidence(name: str, value: float, past: Iterable[float], row: Row, step: int | float) -> dict[str, Any]:
    """What a person wants to see beside an alert: the value, what came before, and which batch it was if logged."""
    batch = {other: row[other] for other in row if "batch_id" in str(other)}
    return {"name": name, "step": step, "value": value, "past": list(past)[-EVIDENCE:], **batch}


def median(values: Iterable[float]) -> float:
    """The middle value, the upper one of two; `statistics` would cost 10 ms of every start."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def centre(values: Iterable[float]) -> tuple[float, float]:
    """The median of some values, and the median of their distances from it."""
    values = list(values)
    middle = median(values)
    return middle, median([abs(value - middle) for value in values])


class _Past:
    """The last finite values of a series, and from where on the next is suspect."""

    __slots__ = ("bad", "due", "suspect", "told", "values")

    def __init__(self, values: Iterable[float] = (), bad: bool = False, told: int | float = -inf) -> None:
        self.values: deque[float] = deque(values, WINDOW)
        self.suspect = LARGEST
        self.due = WARM_UP - len(self.values)
        self.bad = bad  # not finite, and told so
        self.told = told  # the step of the last spike that was told
        if self.due <= 0:
            self.refresh()

    def refresh(self) -> None:
        ordered = sorted(self.values)
        size = len(ordered)
        falling = self.values[-1] <= ordered[size // 4]  # perhaps; then this look is soon out of date
        self.due = REFRESH // 4 if falling else REFRESH
        middle = ordered[size // 2]
        spread = min(middle - ordered[size // 4], ordered[size * 3 // 4] - middle)
        self.suspect = middle + SUSPECT * max(spread, LEAST * abs(middle), 1e-12)

    def cooling(self, step: int | float) -> bool:
        """Whether a spike was told a moment ago; if not, this one is."""
        if 0 <= step - self.told < COOL_DOWN:
            return True
        self.told = step
        return False
