"""Rules for values that should stay within limits: router health, speed of light, throttled GPUs, and your own."""

from __future__ import annotations

from collections.abc import Mapping

from chiplog.core.protocols import Finding
from chiplog.core.records import Plain, Row
from chiplog.metrics import speed_of_light
from chiplog.metrics.moe import HEALTHY, LEAST_UTILIZATION, MOST_IMBALANCE
from chiplog.metrics.rules.outliers import EVIDENCE, WatchedSeries, both

ROWS = 10  # consecutive values beyond a limit before an alert
BACK = 0.05  # of the limit, on the good side: within limits again


class Limit:
    """Alerts when several consecutive values are below or above a limit; again after a recovery.

    >>> run = chiplog.init(rules=[Limit("train/mfu", below=0.3, rows=100)])
    """

    def __init__(
        self,
        *patterns: str,
        below: float | None = None,
        above: float | None = None,
        rows: int = ROWS,
        level: str = "warn",
        says: str = "",
        name: str = "limit",
    ) -> None:
        if (below is None) == (above is None):
            raise ValueError("a limit needs either below or above: Limit('train/mfu', below=0.3)")
        self.name, self.patterns = name, patterns
        self._watch = WatchedSeries(patterns)
        self._sign = 1.0 if below is None else -1.0
        self._limit = self._sign * (above if below is None else below)  # type: ignore[operator]
        self._rows, self._level, self._says = rows, level, says
        self._runs: dict[str, list[float]] = {}  # the newest consecutive values beyond the limit
        self._reported: set[str] = set()

    @classmethod
    def defaults(cls) -> list[Limits]:
        """Common limits: utilization and load of experts, router losses, and the distance from the speed of light."""
        busy = cls(
            *_of_routers("expert_utilization"),
            below=LEAST_UTILIZATION,
            says="experts are idle: the router is collapsing",
            name="router",
        )
        even = cls(
            *_of_routers("load_imbalance"),
            above=MOST_IMBALANCE,
            says="one expert receives too much of the load",
            name="imbalance",
        )
        losses = [
            cls(*_of_routers(name), above=HEALTHY[name].warn_above, says=HEALTHY[name].means, name=name)
            for name in ("aux_loss", "z_loss")
        ]
        fast = cls(
            "*/sol", below=speed_of_light.LOW, rows=100, says="far from the speed of light for 100 steps", name="sol"
        )
        return [Limits(busy, even, *losses, fast)]

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        finding = None
        for name in self._watch.names_in(row):
            value = row.get(name)
            if value is not None:
                finding = both(finding, self._judge(name, value, step))
        return finding

    def _judge(self, name: str, value: float, step: int | float) -> Finding | None:
        over = self._sign * value - self._limit
        if not over > 0:
            self._runs.pop(name, None)
            if over <= -BACK * abs(self._limit):
                self._reported.discard(name)
            return None
        run = self._runs.setdefault(name, [])
        run.append(value)
        if len(run) < self._rows or name in self._reported:
            del run[: -max(self._rows, EVIDENCE)]
            return None
        self._reported.add(name)
        side, limit = ("above" if self._sign > 0 else "below"), self._sign * self._limit
        return Finding(
            f"{name} {side} {limit:g}: {value:.4g}",
            self._level,
            self._says or f"for {len(run)} values, to step {step}",
            {"name": name, "step": step, "value": value, "limit": limit, "past": run[-EVIDENCE:]},
            self.name,
        )

    def state(self) -> dict[str, Plain]:
        return {"told": sorted(self._reported)}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self._reported = set(state["told"])


def _of_routers(name: str) -> tuple[str, str]:
    """The names in a router's own event, and in the row of a step."""
    return f"*/{name}", f"*/moe_{name}"


class Limits:
    """Several limits as one rule, so that a row without watched names costs a single check."""

    name = "limits"

    def __init__(self, *limits: Limit) -> None:
        self._limits = limits
        self._watch = WatchedSeries(pattern for limit in limits for pattern in limit.patterns)

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        if not self._watch.names_in(row):
            return None
        finding = None
        for limit in self._limits:
            finding = both(finding, limit(row, step))
        return finding

    def state(self) -> dict[str, Plain]:
        return {limit.name: limit.state() for limit in self._limits}

    def restore(self, state: Mapping[str, Plain]) -> None:
        for limit in self._limits:
            if limit.name in state:
                limit.restore(state[limit.name])


# The reasons that GPUs and other loggers report while the clocks are not throttled.
_NO_REASON = ("", "idle", "no cap", "not supported")


class Throttled:
    """Alerts when a GPU reports that heat or power slows it down; once until it has recovered."""

    name = "throttled"
    events = ("gpu",)

    def __init__(self) -> None:
        self._throttled: set[Plain] = set()  # ids of GPUs

    def __call__(self, row: Row, step: int | float) -> Finding | None:  # noqa: ARG002
        return None

    def event(self, data: Mapping[str, Plain], step: int | float) -> Finding | None:
        reason = data.get("throttle", data.get("throttle_reason"))
        if reason is None:
            return None  # not in every sample
        gpu, throttled = data.get("id", 0), str(reason) not in _NO_REASON
        before = gpu in self._throttled
        (self._throttled.add if throttled else self._throttled.discard)(gpu)
        if before or not throttled:
            return None
        return Finding(
            f"GPU {gpu} is throttled: {reason}", "warn", f"at step {step}", {"step": step, **data}, self.name
        )
