"""The default rule: a loss or gradient norm that is not finite, or far above its own past."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from math import inf

import msgspec

from chiplog.core import messages
from chiplog.core.protocols import Finding
from chiplog.core.records import Plain, Row
from chiplog.metrics.catalog import is_gradient_norm, is_watched

WINDOW = 128  # the finite values that a spike is compared with
WARM_UP = 16  # values before the first comparison
REFRESH = 32  # values between two updates of the threshold, which cost more than everything else
SUSPECT = 4.0  # times the distance of the nearer quartile at the last update: worth a comparison with the window
DEVIATIONS = 7.5  # times the median absolute deviation of the window, from its median: a spike
LEAST = 1e-3  # of the median, the minimum deviation: a curve without noise is not full of spikes
GRADIENTS = 4.0  # times the median, at least, for a gradient norm: those have long tails
COOL_DOWN = 100  # steps after a spike in which further ones of the same series are not reported
EVIDENCE = 20  # values shown with an alert
MOST_SEEN = 200_000  # names that are remembered
MOST_WATCHED = 10_000  # names with a window of past values, of 5 KiB each
LARGEST = sys.float_info.max


class WatchedSeries:
    """The watched names among those seen so far, by patterns or by a function. Each name is checked once."""

    def __init__(self, wanted: Iterable[str] | Callable[[str], bool] = is_watched) -> None:
        self._wanted = wanted if callable(wanted) else matcher(wanted)
        self._seen: set[str] = set()
        self._watched: set[str] = set()
        self.names: list[str] = []

    def names_in(self, row: Row) -> list[str]:
        """Add the watched names of a row; returns those of all rows so far, or of this one if that is shorter."""
        if not self._seen.issuperset(row):
            self._add(row)
        if len(self.names) <= len(row):
            return self.names
        return [name for name in row if name in self._watched]

    def _add(self, row: Row) -> None:
        for name in row:
            if name in self._seen:
                continue
            if len(self._seen) >= MOST_SEEN or len(self.names) >= MOST_WATCHED:
                messages.once(
                    "watched names", f"alerts watch the first {len(self.names):,} series only: the run has too many"
                )
                return
            self._seen.add(name)
            if type(name) is not str and str(name) in row:  # seen here, because `log` cannot afford to look at names
                words = (
                    f"the name {str(name)!r} has two values in one row, as {name!r} and as a string; the last is kept"
                )
                messages.once(f"name {name}", words)
            if self._wanted(str(name)):
                self.names.append(name)
                self._watched.add(name)


class Outliers:
    """Alerts when a watched value becomes NaN or infinite, once until it is finite again; and when it spikes.

    A spike is 7.5 median absolute deviations above the median of the previous 128 finite values. The window is examined
    only if a value exceeds a threshold that is updated every 32 values, so that a typical row costs two comparisons.
    """

    name = "oddities"

    def __init__(self, watch: WatchedSeries | None = None) -> None:
        self._watch = watch or WatchedSeries()
        self._past: dict[str, _Past] = {}

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        finding = None
        for name in self._watch.names_in(row):
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
                finding = both(finding, _judge(name, value, past, row, step))
        return finding

    def state(self) -> dict[str, Plain]:
        return {
            name: {
                "values": list(past.values),
                "bad": past.bad,
                "told": past.reported if past.reported > -inf else None,
            }
            for name, past in self._past.items()
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        for name, saved in state.items():
            reported = -inf if saved["told"] is None else saved["told"]
            self._past[name] = _Past(saved["values"], saved["bad"], reported)


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """A function that tells whether a name matches one of these patterns."""
    listed = tuple(patterns)
    return lambda name: any(fnmatchcase(name, pattern) for pattern in listed)


def _judge(name: str, value: float, past: _Past, row: Row, step: int | float) -> Finding | None:
    """The finding about a value that is suspect or not finite, if any."""
    if value - value != 0:
        reported, past.bad = past.bad, True
        shown = evidence(name, value, past.values, row, step)
        return None if reported else Finding(f"{name} is {value}", "error", f"at step {step}", shown, "non-finite")
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
    """Merge findings from one row, of which each becomes an alert: a loss and its gradients may spike together."""
    if one is None or other is None:
        return one or other
    return msgspec.structs.replace(one, beside=(*one.beside, other, *other.beside))


def evidence(name: str, value: float, past: Iterable[float], row: Row, step: int | float) -> dict[str, Plain]:
    """The evidence for an alert: the value, the values before it, and the batch, if it was logged."""
    batch = {other: row[other] for other in row if "batch_id" in str(other)}
    return {"name": name, "step": step, "value": value, "past": list(past)[-EVIDENCE:], **batch}


def median(values: Iterable[float]) -> float:
    """The middle value, or the upper one of two; importing `statistics` would add 10 ms to every start."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def centre(values: Iterable[float]) -> tuple[float, float]:
    """The median of some values, and the median of their distances from it."""
    values = list(values)
    middle = median(values)
    return middle, median([abs(value - middle) for value in values])


class _Past:
    """The last finite values of a series, and the threshold above which the next one is suspect."""

    __slots__ = ("bad", "due", "reported", "suspect", "values")

    def __init__(self, values: Iterable[float] = (), bad: bool = False, reported: int | float = -inf) -> None:
        self.values: deque[float] = deque(values, WINDOW)
        self.suspect = LARGEST
        self.due = WARM_UP - len(self.values)
        self.bad = bad  # the last value was not finite
        self.reported = reported  # the step of the last spike that was reported
        if self.due <= 0:
            self.refresh()

    def refresh(self) -> None:
        """Update the threshold from the window."""
        ordered = sorted(self.values)
        size = len(ordered)
        falling = self.values[-1] <= ordered[size // 4]  # perhaps; then the threshold is soon out of date
        self.due = REFRESH // 4 if falling else REFRESH
        middle = ordered[size // 2]
        spread = min(middle - ordered[size // 4], ordered[size * 3 // 4] - middle)
        self.suspect = middle + SUSPECT * max(spread, LEAST * abs(middle), 1e-12)

    def cooling(self, step: int | float) -> bool:
        """Whether a spike was reported recently; if not, this one counts as reported."""
        if 0 <= step - self.reported < COOL_DOWN:
            return True
        self.reported = step
        return False
