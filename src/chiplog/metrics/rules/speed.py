"""Rules for the speed of training: it has dropped, or training has stalled."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping

from chiplog.core.protocols import Finding
from chiplog.core.records import Plain, Row
from chiplog.metrics.rules.outliers import WatchedSeries, median

SPEEDS = ("*/tokens_per_sec", "*/tokens_per_second", "*/steps_per_sec", "*/samples_per_sec")
BUCKET = 16  # values per point, which is their median
USUAL = 16  # points whose median is the usual speed
DROP, BACK = 0.8, 0.9  # of the usual speed: a drop, and recovered
HOLD = 2  # consecutive points
PATIENCE = 10.0  # times the usual step
SHORTEST = 30.0  # s without a step, at least, before it is a stall


class Slowdown:
    """Alerts when throughput stays below 80 % of its usual value for 32 values; again after it was back at 90 %."""

    name = "slowdown"

    def __init__(self, watch: WatchedSeries | None = None) -> None:
        self._watch = watch or WatchedSeries(SPEEDS)
        self._speeds: defaultdict[str, _Speed] = defaultdict(_Speed)

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        finding = None
        for name in self._watch.names_in(row):
            value = row.get(name)
            if value is None or value - value != 0:
                continue
            speed = self._speeds[name]
            speed.values.append(value)
            if len(speed.values) >= BUCKET and speed.add_point():
                finding = finding or Finding(
                    f"{name} dropped to {speed.now / speed.usual:.0%}",
                    "warn",
                    f"at step {step}: {speed.now:.4g}, {speed.usual:.4g} before",
                    {"name": name, "step": step, "value": speed.now, "usual": speed.usual, "past": list(speed.points)},
                    self.name,
                )
        return finding

    def state(self) -> dict[str, Plain]:
        return {name: {"points": list(speed.points), "slow": speed.slow} for name, speed in self._speeds.items()}

    def restore(self, state: Mapping[str, Plain]) -> None:
        for name, saved in state.items():
            speed = self._speeds[name] = _Speed()
            speed.points.extend(saved["points"])
            speed.slow = saved["slow"]


class _Speed:
    def __init__(self) -> None:
        self.values: list[float] = []
        self.points: deque[float] = deque(maxlen=USUAL)
        self.now = self.usual = 0.0
        self.slow = 0  # consecutive points below the mark; HOLD of them are a drop, until it has recovered

    def add_point(self) -> bool:
        """Turn the values into a point; true if it completes a drop."""
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
        if not self.slow:  # a slow period does not become the usual speed, or the recovery would be missed
            self.points.append(self.now)
        return False


class Stall:
    """Alerts when there was no row for ten times the usual time between two, and at least 30 s; once per stall."""

    name = "stall"

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None
        self._step: int | float | None = None
        self._gaps: deque[float] = deque(maxlen=64)
        self._reported = False

    def __call__(self, row: Row, step: int | float) -> Finding | None:  # noqa: ARG002
        if step == self._step:
            return None
        now = self._clock()
        if self._last is not None and not self._reported:  # a stall is not a usual gap
            self._gaps.append(now - self._last)
        self._last, self._step, self._reported = now, step, False
        return None

    def tick(self) -> Finding | None:
        """Check for a stall; called periodically in the background."""
        gaps = list(self._gaps)
        if self._last is None or self._reported or len(gaps) < HOLD:
            return None
        waited, usual = self._clock() - self._last, median(gaps)
        if waited < max(PATIENCE * usual, SHORTEST):
            return None
        self._reported = True
        return Finding(
            f"no step for {waited:.0f} s",
            "warn",
            f"after step {self._step}; a step usually takes {usual:.3g} s",
            {"step": self._step, "waited_sec": waited, "usual_sec": usual, "past": gaps[-20:]},
            self.name,
        )
