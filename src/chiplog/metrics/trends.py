"""Where a loss is going: warming up, converging, on a plateau, unstable, or diverging."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from chiplog.core.protocols import Finding
from chiplog.core.records import Row
from chiplog.metrics.alerts import Watch, centre, median

LOSSES = ("loss", "*/loss")
BUCKET = 32  # finite values that become one point of the trend, their median
WARM_UP = 4  # buckets before the first judgement
LOOK = 16  # buckets the slope is taken over
FLAT = 0.002  # of the loss over all that is looked at: less is no progress
WILD = 3.0  # times the usual spread inside a bucket
ABOVE = 0.1  # of the best loss, and
BEYOND = 6.0  # times the spread above the best loss: lost ground
HOLD = 2  # buckets that a phase must last before it counts

LEVELS = {"plateau": "info", "unstable": "warn", "diverging": "error"}


class Trend:
    """Alerts when a loss enters a phase that wants a look: a plateau, instability, divergence.

    Every 32 finite values become one point, their median, with their spread. The phase follows from the last 16 points:
    `diverging` when they lie a tenth and six spreads above the best of all; `unstable` when the spread has grown
    threefold; `plateau` when the robust slope over them is within the noise or below 0.2 %; otherwise `converging`.
    """

    name = "trend"

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch or Watch(LOSSES)
        self._courses: dict[str, _Course] = {}

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        found = None
        for name in self._watch.look(row):
            value = row.get(name)
            if value is None or value - value != 0:
                continue
            course = self._courses.get(name)
            if course is None:
                course = self._courses[name] = _Course()
            course.values.append(value)
            if len(course.values) >= BUCKET and (before := course.turn()) is not None and course.phase in LEVELS:
                found = found or _finding(name, course, before, step)
        return found

    def phase(self, name: str) -> str:
        """The phase a series is in."""
        course = self._courses.get(name)
        return "warm-up" if course is None else course.phase

    def state(self) -> dict[str, Any]:
        return {name: course.state() for name, course in self._courses.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, saved in state.items():
            self._courses[name] = _Course(**saved)


def _finding(name: str, course: _Course, before: str, step: int | float) -> Finding:
    points = list(course.middles)
    return Finding(
        f"{name}: {course.phase}",
        LEVELS[course.phase],
        f"at step {step}, {before} before; {points[-1]:.4g} now, {course.best:.4g} at best",
        {"name": name, "step": step, "phase": course.phase, "before": before, "past": points, "best": course.best},
        "trend",
    )


class _Course:
    """One series in points, and the phase that follows from them."""

    def __init__(
        self,
        values: list[float] | None = None,
        middles: list[float] | None = None,
        spreads: list[float] | None = None,
        best: float = float("inf"),
        phase: str = "warm-up",
        next_phase: str = "",
        held: int = 0,
    ) -> None:
        self.values = values or []
        self.middles: deque[float] = deque(middles or (), maxlen=LOOK)
        self.spreads: deque[float] = deque(spreads or (), maxlen=LOOK)
        self.best, self.phase, self.next_phase, self.held = best, phase, next_phase, held

    def turn(self) -> str | None:
        """Make a point of the values, and say the phase before if it has changed."""
        middle, spread = centre(self.values)
        self.values = []
        seen = self._look(middle, spread)
        self.middles.append(middle)
        self.spreads.append(spread)
        self.best = min(self.best, middle)
        self.held = self.held + 1 if seen == self.next_phase else 1
        self.next_phase = seen
        if seen == self.phase or self.held < HOLD:
            return None
        before, self.phase = self.phase, seen
        return before

    def _look(self, middle: float, spread: float) -> str:
        if len(self.middles) < WARM_UP:
            return "warm-up"
        usual = max(median(self.spreads), 1e-12)
        if middle > self.best + max(ABOVE * abs(self.best), BEYOND * usual):
            return "diverging"
        if spread > WILD * usual and spread > FLAT * abs(middle):
            return "unstable"
        points = [*self.middles, middle]
        if len(points) < LOOK:
            return "converging"
        change = median([(b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(points), 2)]) * len(points)
        noise = 2 * 1.25 * 1.48 * usual / BUCKET**0.5  # twice the standard error of a point
        progress = max(noise, FLAT * abs(middle)) * (2 if self.phase == "plateau" else 1)
        return "converging" if change < -progress else "plateau"

    def state(self) -> dict[str, Any]:
        return {
            "values": self.values,
            "middles": list(self.middles),
            "spreads": list(self.spreads),
            "best": self.best,
            "phase": self.phase,
            "next_phase": self.next_phase,
            "held": self.held,
        }
