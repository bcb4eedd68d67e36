"""Where a loss is going: warming up, converging, on a plateau, unstable, or diverging."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from math import inf
from typing import Any

from chiplog.core.protocols import Finding
from chiplog.core.records import Row
from chiplog.metrics.catalog import should_fall
from chiplog.metrics.rules.outliers import EVIDENCE, WatchedSeries, both, centre, median

BUCKET = 10  # finite values that become one point of the trend, their median
WARM_UP = 5  # points before the first judgement
LOOK = 50  # points the slope is taken over
FLAT = 0.001  # of the loss, over all that is looked at: less is no progress
RISING = 0.01  # of the loss, over all that is looked at: more is lost ground
ABOVE, BEYOND = 0.1, 6.0  # of the best loss, and times the spread above it: lost ground too
SWING = 0.15  # of the loss, as a standard deviation within a point: swinging
WILD = 3.0  # times the usual spread within a point: swinging more than it did
SURE = 2.0  # standard errors that a slope must have to count
HOLD = 2  # judgements in a row before one phase follows another
SELDOM = 5  # points between two judgements, when there are as many as are looked at
PATIENCE, AGAIN = 102, 200  # values before a plateau is told, and before it is told again; doubled every time
COOL_DOWN = 1000  # values before instability or divergence is told again

LEVELS = {"plateau": "info", "unstable": "warn", "diverging": "error"}


class Trend:
    """Alerts when a loss enters a phase that wants a look: a plateau, instability, divergence.

    Ten finite values become one point, their median, with their spread. The phase follows from the last fifty points,
    by a slope that must be twice its standard error to count: see the constants above. A plateau is told again while
    it lasts, after 200 values, 400, 800, ...; the others when they come again after a while.
    """

    name = "trend"

    def __init__(self, watch: WatchedSeries | None = None) -> None:
        self._watch = watch or WatchedSeries(should_fall)
        self._courses: defaultdict[str, _Course] = defaultdict(_Course)

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        found = None
        for name in self._watch.look(row):
            value = row.get(name)
            if value is not None and value - value == 0 and (course := self._courses[name]).add(value):
                found = both(found, _finding(name, course, step))
        return found

    def phase(self, name: str) -> str:
        """The phase a series is in."""
        course = self._courses.get(name)
        return "warm-up" if course is None else course.phase

    def state(self) -> dict[str, Any]:
        return {name: course.state() for name, course in self._courses.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, saved in state.items():
            self._courses[name] = _Course(saved)


def _finding(name: str, course: _Course, step: int | float) -> Finding:
    points = list(course.middles)
    return Finding(
        f"{name}: {course.phase}",
        LEVELS[course.phase],
        f"at step {step}, {course.before} before; {points[-1]:.4g} now, {course.best:.4g} at best",
        {
            "name": name, "step": step, "phase": course.phase, "before": course.before, "best": course.best,
            "past": points[-EVIDENCE:],
        },
        "trend",
    )  # fmt: skip


class _Course:
    """One series in points, and the phase that follows from them."""

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        known = saved or {}
        self.values: list[float] = list(known.get("values", ()))
        self.middles: deque[float] = deque(known.get("middles", ()), LOOK)
        self.spreads: deque[float] = deque(known.get("spreads", ()), LOOK)
        self.best: float = known.get("best", inf)
        self.phase: str = known.get("phase", "warm-up")
        self.before: str = known.get("before", "warm-up")
        self._coming: str = known.get("coming", "")
        self._held: int = known.get("held", 0)
        self._seen: int = known.get("seen", 0)
        self._due: int = known.get("due", PATIENCE)  # the value from which on a plateau is told
        self._pause: int = known.get("pause", AGAIN)
        self._told: dict[str, int] = dict(known.get("told", ()))
        self._wake = self._due if self.phase == "plateau" else inf  # the value that is judged whatever the bucket has

    def state(self) -> dict[str, Any]:
        return {
            "values": self.values, "middles": list(self.middles), "spreads": list(self.spreads), "best": self.best,
            "phase": self.phase, "before": self.before, "coming": self._coming, "held": self._held, "seen": self._seen,
            "due": self._due, "pause": self._pause, "told": self._told,
        }  # fmt: skip

    def add(self, value: float) -> bool:
        """Take a value; true when there is something to tell."""
        self._seen += 1
        self.values.append(value)
        if len(self.values) < BUCKET and self._seen < self._wake:
            return False
        told = self._judge()
        self._wake = self._due if self.phase == "plateau" else inf
        return told

    def _judge(self) -> bool:
        turned = len(self.values) >= BUCKET and self._turn()
        if self.phase == "plateau":
            if self._seen < self._due:
                return False
            self._due, self._pause = self._seen + self._pause, 2 * self._pause
            return True
        if not turned or self.phase not in LEVELS or self._seen < self._told.get(self.phase, -COOL_DOWN) + COOL_DOWN:
            return False
        self._told[self.phase] = self._seen
        return True

    def _turn(self) -> bool:
        """Make a point of the values; true when the phase has changed."""
        middle, spread = centre(self.values)
        self.values = []
        self.middles.append(middle)
        self.spreads.append(spread)
        self.best = min(self.best, middle)
        if len(self.middles) == LOOK and self._seen // BUCKET % SELDOM:
            return False
        seen = self._look(middle)
        self._held = self._held + 1 if seen == self._coming else 1
        self._coming = seen
        if seen == self.phase or (self._held < HOLD and self.phase != "warm-up"):
            return False
        if self.phase == "plateau":
            self._due, self._pause = self._seen + AGAIN, AGAIN
        self.before, self.phase = self.phase, seen
        return True

    def _look(self, middle: float) -> str:
        if len(self.middles) < WARM_UP:
            return "warm-up"
        usual, now = max(median(self.spreads), 1e-12), median(list(self.spreads)[-3:])
        if 1.48 * now > SWING * abs(middle) or (now > WILD * usual and now > FLAT * abs(middle)):
            return "unstable"
        if middle > self.best + max(ABOVE * abs(self.best), BEYOND * usual):
            return "diverging"
        change = _slope(self.middles) * len(self.middles)
        sure = SURE * 1.25 * 1.48 * usual / BUCKET**0.5 * (12 / len(self.middles)) ** 0.5
        if change > max(sure, RISING * abs(middle)):
            return "diverging"
        needed = max(sure, FLAT * abs(middle)) * (2 if self.phase == "plateau" else 1)
        return "converging" if change < -needed else "plateau"


def _slope(points: Collection[float]) -> float:
    """By least squares, a point."""
    count = len(points)
    centred = (count - 1) / 2
    weight = count * (count * count - 1) / 12
    return sum((at - centred) * point for at, point in enumerate(points)) / weight
