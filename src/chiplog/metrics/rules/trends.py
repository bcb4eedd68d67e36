"""The phase of a loss: warming up, converging, on a plateau, unstable, or diverging."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from math import inf

from chiplog.core.protocols import Finding
from chiplog.core.records import Plain, Row
from chiplog.metrics.catalog import should_fall
from chiplog.metrics.rules.outliers import EVIDENCE, WatchedSeries, both, centre, median

BUCKET = 10  # finite values per point of the trend, which is their median
WARM_UP = 5  # points before the first phase
WINDOW = 50  # points for the slope
FLAT = 0.001  # of the loss, over the window: less is not progress
RISING = 0.01  # of the loss, over the window: more is lost ground
ABOVE, BEYOND = 0.1, 6.0  # of the best loss, and times the spread above it: lost ground too
SWING = 0.15  # of the loss, as a standard deviation within a point: swinging
WILD = 3.0  # times the usual spread within a point: swinging more than it did
SURE = 2.0  # standard errors that a slope must have to count
HOLD = 2  # consecutive results before the phase changes
SELDOM = 5  # points between two results once the window is full
PATIENCE, AGAIN = 102, 200  # values before a plateau is reported, and before it is repeated; doubled every time
COOL_DOWN = 1000  # values before instability or divergence is reported again

LEVELS = {"plateau": "info", "unstable": "warn", "diverging": "error"}


class Trend:
    """Alerts when a loss enters a phase that needs attention: a plateau, instability, divergence.

    Ten finite values become one point, their median, with their spread. The phase follows from the last fifty points,
    by a slope that must be twice its standard error to count: see the constants above. A plateau is reported again
    while it lasts, after 200 values, 400, 800, ...; the others if they recur after a while.
    """

    name = "trend"

    def __init__(self, watch: WatchedSeries | None = None) -> None:
        self._watch = watch or WatchedSeries(should_fall)
        self._trends: defaultdict[str, _Points] = defaultdict(_Points)

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        finding = None
        for name in self._watch.names_in(row):
            value = row.get(name)
            if value is not None and value - value == 0 and (trend := self._trends[name]).add(value):
                finding = both(finding, _finding(name, trend, step))
        return finding

    def phase(self, name: str) -> str:
        """The current phase of a series."""
        trend = self._trends.get(name)
        return "warm-up" if trend is None else trend.phase

    def state(self) -> dict[str, Plain]:
        return {name: trend.state() for name, trend in self._trends.items()}

    def restore(self, state: Mapping[str, Plain]) -> None:
        for name, saved in state.items():
            self._trends[name] = _Points(saved)


def _finding(name: str, trend: _Points, step: int | float) -> Finding:
    points = list(trend.middles)
    return Finding(
        f"{name}: {trend.phase}",
        LEVELS[trend.phase],
        f"at step {step}, {trend.before} before; {points[-1]:.4g} now, {trend.best:.4g} at best",
        {
            "name": name, "step": step, "phase": trend.phase, "before": trend.before, "best": trend.best,
            "past": points[-EVIDENCE:],
        },
        "trend",
    )  # fmt: skip


class _Points:
    """The points of one series, and the phase that follows from them."""

    def __init__(self, saved: Mapping[str, Plain] | None = None) -> None:
        state = saved or {}
        self.values: list[float] = list(state.get("values", ()))
        self.middles: deque[float] = deque(state.get("middles", ()), WINDOW)
        self.spreads: deque[float] = deque(state.get("spreads", ()), WINDOW)
        self.best: float = state.get("best", inf)
        self.phase: str = state.get("phase", "warm-up")
        self.before: str = state.get("before", "warm-up")
        self._coming: str = state.get("coming", "")
        self._held: int = state.get("held", 0)
        self._seen: int = state.get("seen", 0)
        self._due: int = state.get("due", PATIENCE)  # the value at which a plateau is reported
        self._pause: int = state.get("pause", AGAIN)
        self._reported: dict[str, int] = dict(state.get("told", ()))
        self._wake = (
            self._due if self.phase == "plateau" else inf
        )  # the value that is judged even if the bucket is not full

    def state(self) -> dict[str, Plain]:
        return {
            "values": self.values, "middles": list(self.middles), "spreads": list(self.spreads), "best": self.best,
            "phase": self.phase, "before": self.before, "coming": self._coming, "held": self._held, "seen": self._seen,
            "due": self._due, "pause": self._pause, "told": self._reported,
        }  # fmt: skip

    def add(self, value: float) -> bool:
        """Add a value; true if there is something to report."""
        self._seen += 1
        self.values.append(value)
        if len(self.values) < BUCKET and self._seen < self._wake:
            return False
        due = self._is_due()
        self._wake = self._due if self.phase == "plateau" else inf
        return due

    def _is_due(self) -> bool:
        changed = len(self.values) >= BUCKET and self._add_point()
        if self.phase == "plateau":
            if self._seen < self._due:
                return False
            self._due, self._pause = self._seen + self._pause, 2 * self._pause
            return True
        if (
            not changed
            or self.phase not in LEVELS
            or self._seen < self._reported.get(self.phase, -COOL_DOWN) + COOL_DOWN
        ):
            return False
        self._reported[self.phase] = self._seen
        return True

    def _add_point(self) -> bool:
        """Turn the values into a point; true if the phase has changed."""
        middle, spread = centre(self.values)
        self.values = []
        self.middles.append(middle)
        self.spreads.append(spread)
        self.best = min(self.best, middle)
        if len(self.middles) == WINDOW and self._seen // BUCKET % SELDOM:
            return False
        phase = self._judge(middle)
        self._held = self._held + 1 if phase == self._coming else 1
        self._coming = phase
        if phase == self.phase or (self._held < HOLD and self.phase != "warm-up"):
            return False
        if self.phase == "plateau":
            self._due, self._pause = self._seen + AGAIN, AGAIN
        self.before, self.phase = self.phase, phase
        return True

    def _judge(self, middle: float) -> str:
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
    """The slope per point, by least squares."""
    count = len(points)
    centred = (count - 1) / 2
    weight = count * (count * count - 1) / 12
    return sum((at - centred) * point for at, point in enumerate(points)) / weight
