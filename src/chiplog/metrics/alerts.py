"""The rules that are on by default: a loss or gradient norm that is no number any more, or far from where it was."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from fnmatch import fnmatchcase
from math import inf

from chiplog.core.protocols import Finding
from chiplog.core.records import Row

WATCHED = ("loss", "grad_norm", "*/loss", "*/grad_norm")
WINDOW = 128  # finite values a spike is judged by
WARM_UP = 16  # values before the first judgement
REFRESH = 32  # values between two looks at the median
DEVIATIONS = 10.0  # of the median absolute deviation
COOL_DOWN = 100  # rows after an alert before the next one of the same series
EVIDENCE = 20  # values shown with an alert


class Watch:
    """The watched names of the rows that have been seen; one set comparison a row finds them, for all rules."""

    def __init__(self, patterns: tuple[str, ...] = WATCHED) -> None:
        self._patterns = patterns
        self._seen: set[str] = set()
        self._last: Row | None = None
        self.names: list[str] = []

    def look(self, row: Row) -> list[str]:
        if row is self._last:
            return self.names
        self._last = row
        if not self._seen.issuperset(row):
            for name in row:
                if name not in self._seen:
                    self._seen.add(name)
                    if any(fnmatchcase(str(name), pattern) for pattern in self._patterns):
                        self.names.append(name)
        return self.names


class NonFinite:
    """Alerts when a watched value becomes NaN or infinite; once, until it has been finite again."""

    name = "non-finite"

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch or Watch()
        self._bad: set[str] = set()

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        for name in self._watch.look(row):
            value = row.get(name)
            if value is None:
                continue
            if value - value == 0:
                if self._bad:
                    self._bad.discard(name)
            elif name not in self._bad:
                self._bad.add(name)
                return Finding(
                    f"{name} is {value}",
                    "error",
                    f"at step {step}",
                    {"name": name, "step": step, "value": value},
                )
        return None


class Spike:
    """Alerts when a watched value is far above the median of its finite past, by the past's own deviation (MAD)."""

    name = "spike"

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch or Watch()
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
            if past.quiet:
                past.quiet -= 1
            elif past.limit < value < inf and found is None:
                past.quiet = COOL_DOWN
                evidence = {
                    "name": name,
                    "step": step,
                    "value": value,
                    "limit": past.limit,
                    "past": list(past.values)[-EVIDENCE:],
                }
                found = Finding(
                    f"{name} spikes: {value:.4g}",
                    "warn",
                    f"at step {step}, {past.middle:.4g} before",
                    evidence,
                )
            if value - value == 0:
                past.add(value)
        return found


def median(values: Iterable[float]) -> float:
    """The middle value, the upper one of two; `statistics` would cost 10 ms of every start."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


class _Past:
    __slots__ = ("due", "limit", "middle", "quiet", "values")

    def __init__(self) -> None:
        self.values: deque[float] = deque(maxlen=WINDOW)
        self.limit = inf
        self.middle = 0.0
        self.due = WARM_UP
        self.quiet = 0

    def add(self, value: float) -> None:
        self.values.append(value)
        self.due -= 1
        if self.due <= 0:
            self.due = REFRESH
            self.middle = median(self.values)
            spread = median(abs(value - self.middle) for value in self.values)
            self.limit = self.middle + DEVIATIONS * max(spread, 0.01 * abs(self.middle), 1e-12)
