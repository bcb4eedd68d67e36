"""Rules on values that should stay within limits: router health, speed of light, throttled GPUs, and your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chiplog.core.protocols import Finding
from chiplog.core.records import Row
from chiplog.metrics import speed_of_light
from chiplog.metrics.moe import HEALTHY, LEAST_UTILIZATION, MOST_IMBALANCE
from chiplog.metrics.rules.outliers import EVIDENCE, WatchedSeries, both

FOR = 10  # values in a row
BACK = 0.05  # of the limit, on the good side: within limits again


class Limit:
    """Alerts when a value stays below or above a limit for some values in a row; again when it had come back.

    >>> run = chiplog.init(rules=[Limit("train/mfu", below=0.3, rows=100)])
    """

    def __init__(
        self,
        *patterns: str,
        below: float | None = None,
        above: float | None = None,
        rows: int = FOR,
        level: str = "warn",
        says: str = "",
        name: str = "limit",
    ) -> None:
        if (below is None) == (above is None):
            raise ValueError("a limit is either below or above: Limit('train/mfu', below=0.3)")
        self.name, self.patterns = name, patterns
        self._watch = WatchedSeries(patterns)
        self._sign = 1.0 if below is None else -1.0
        self._limit = self._sign * (above if below is None else below)  # type: ignore[operator]
        self._rows, self._level, self._says = rows, level, says
        self._runs: dict[str, list[float]] = {}  # beyond the limit in a row, the last of them
        self._told: set[str] = set()

    @classmethod
    def defaults(cls) -> list[Limits]:
        """The limits people keep: experts in use, load among them, their losses, how near to the speed of light."""
        busy = cls(
            *_of_routers("expert_utilization"),
            below=LEAST_UTILIZATION,
            says="experts are idle: the router collapses",
            name="router",
        )
        even = cls(
            *_of_routers("load_imbalance"),
            above=MOST_IMBALANCE,
            says="one expert gets too much of the load",
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
        found = None
        for name in self._watch.look(row):
            value = row.get(name)
            if value is not None:
                found = both(found, self._judge(name, value, step))
        return found

    def _judge(self, name: str, value: float, step: int | float) -> Finding | None:
        over = self._sign * value - self._limit
        if not over > 0:
            self._runs.pop(name, None)
            if over <= -BACK * abs(self._limit):
                self._told.discard(name)
            return None
        run = self._runs.setdefault(name, [])
        run.append(value)
        if len(run) < self._rows or name in self._told:
            del run[: -max(self._rows, EVIDENCE)]
            return None
        self._told.add(name)
        side, limit = ("above" if self._sign > 0 else "below"), self._sign * self._limit
        return Finding(
            f"{name} {side} {limit:g}: {value:.4g}",
            self._level,
            self._says or f"for {len(run)} values, to step {step}",
            {"name": name, "step": step, "value": value, "limit": limit, "past": run[-EVIDENCE:]},
            self.name,
        )

    def state(self) -> dict[str, Any]:
        return {"told": sorted(self._told)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._told = set(state["told"])


def _of_routers(name: str) -> tuple[str, str]:
    """As a router's own event has it, and as a step's row may."""
    return f"*/{name}", f"*/moe_{name}"


class Limits:
    """Several limits as one rule: a row that none of them watches costs one look for all."""

    name = "limits"

    def __init__(self, *limits: Limit) -> None:
        self._limits = limits
        self._watch = WatchedSeries(pattern for limit in limits for pattern in limit.patterns)

    def __call__(self, row: Row, step: int | float) -> Finding | None:
        if not self._watch.look(row):
            return None
        found = None
        for limit in self._limits:
            found = both(found, limit(row, step))
        return found

    def state(self) -> dict[str, Any]:
        return {limit.name: limit.state() for limit in self._limits}

    def restore(self, state: Mapping[str, Any]) -> None:
        for limit in self._limits:
            if limit.name in state:
                limit.restore(state[limit.name])


# What GPUs and other loggers say when the clocks are not held down.
_NO_REASON = ("", "idle", "no cap", "not supported")


class Throttled:
    """Alerts when a GPU says that it is slowed down for heat or power; once until it is not."""

    name = "throttled"
    events = ("gpu",)

    def __init__(self) -> None:
        self._reasons: dict[Any, str] = {}

    def __call__(self, row: Row, step: int | float) -> Finding | None:  # noqa: ARG002
        return None

    def event(self, data: Mapping[str, Any], step: int | float) -> Finding | None:
        said = data.get("throttle", data.get("throttle_reason"))
        if said is None:
            return None  # not every sample says it
        gpu, reason = data.get("id", 0), str(said)
        before = self._reasons.get(gpu, "")
        self._reasons[gpu] = reason
        if reason in _NO_REASON:
            self._reasons[gpu] = ""
            return None
        if before:
            return None
        return Finding(
            f"GPU {gpu} is throttled: {reason}", "warn", f"at step {step}", {"step": step, **data}, self.name
        )
