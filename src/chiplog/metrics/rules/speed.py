"""Rules on the pace of training: it has become slower, or it has stopped."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

from chiplog.core.protocols import Finding
from chiplog.core.records import Row
from chiplog.metrics.rules.outliers import WatchedSeries, median

SPEEDS = ("*/tokens_per_sec", "*/tokens_per_second", "*/steps_per_sec", "*/samples_per_sec")
BUCKET = 16  # values that become one point, their median
USUAL = 16  # points whose median is the usual pace
DROP, BACK = 0.8, 0.9  # of the usual pace: a drop, and recovered
HOLD = 2  # points in a row
PATIENCE = 10.0  # times the usual step
SHORTEST = 30.0  # s without a step, at the least, before it is a stall


class Slowdown:
    """Alerts when throughput falls below 80 % of what it was, for 32 values; again when it had come back to 90 %."""

    name = "slowdown"

    def __init__(self, watch: WatchedSeries | None = None) -> None:
        self._watch = watch or WatchedSeries(SPEEDS)
        self._paces: defaultdict[str, _Pace] = defaultdict(_Pace)

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        found = None
        for name in self._watch.look(row):
            value = row.get(name)
            if value is None or value - value != 0:
                continue
            pace = self._paces[name]
            pace.values.append(value)
            if len(pace.values) >= BUCKET and pace.turn():
                found = found or Finding(
                    f"{name} dropped to {pace.now / pace.usual:.0%}",
                    "warn",
                    f"at step {step}: {pace.now:.4g}, {pace.usual:.4g} before",
                    {"name": name, "step": step, "value": pace.now, "usual": pace.usual, "past": list(pace.points)},
                    self.name,
                )
        return found

    def state(self) -> dict[str, Any]:
        return {name: {"points": list(pace.points), "slow": pace.slow} for name, pace in self._paces.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, saved in state.items():
            pace = self._paces[name] = _Pace()
            pace.points.extend(saved["points"])
            pace.slow = saved["slow"]


class _Pace:
    def __init__(self) -> None:
        self.values: list[float] = []
        self.points: deque[float] = deque(maxlen=USUAL)
        self.now = self.usual = 0.0
        self.slow = 0  # points below the mark, in a row; HOLD of them is a drop, until it has recovered

    def turn(self) -> bool:
        """Make a point of the values; true when it completes a drop."""
        self.now = median(self.values)
        self.values = []
        if len(self.points) < HOLD:
            self.points.append(self.now)
            return False
        self.usual = median(self.points)
        if self.now >= BACK * self.usual:
            self.slow = 0
        elif self.now < DROP * self.usual and self.slow < HOLD:
            self.slow += 1
            if self.slow == HOLD:
                return True
        if not self.slow:  # a slow stretch does not become the usual pace, or coming back would be missed
            self.points.append(self.now)
        return False


class Stall:
    """Alerts when no row has come for ten times the usual time between two, and at least 30 s; once a stall."""

    name = "stall"

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None
        self._step: int | float | None = None
        self._gaps: deque[float] = deque(maxlen=64)
        self._told = False

    def __call__(self, row: Row, step: int | float) -> Finding | None:  # noqa: ARG002
        if step == self._step:
            return None
        now = self._clock()
        if self._last is not None and not self._told:  # a stall is no usual gap
            self._gaps.append(now - self._last)
        self._last, self._step, self._told = now, step, False
        return None

    def tick(self) -> Finding | None:
        """Asked now and then in the background, also when no row comes."""
        gaps = list(self._gaps)
        if self._last is None or self._told or len(gaps) < HOLD:
            return None
        waited, usual = self._clock() - self._last, median(gaps)
        if waited < max(PATIENCE * usual, SHORTEST):
            return None
        self._told = True
        return Finding(
            f"no step for {waited:.0f} s",
            "warn",
            f"after step {self._step}; a step usually takes {usual:.3g} s",
            {"step": self._step, "waited_sec": waited, "usual_sec": usual, "past": gaps[-20:]},
            self.name,
        )
