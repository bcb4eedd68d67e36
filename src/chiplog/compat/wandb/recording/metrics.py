"""What `define_metric` says about metrics: their x axis, and how their summary is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chiplog.compat.wandb import messages
from chiplog.core.values import convert

OPERATIONS = ("min", "max", "mean", "last", "first", "best", "none", "copy")
PLANS = 1000  # sets of names that are remembered


class Metric:
    """One definition; `name` may end in `*`."""

    def __init__(
        self,
        name: str,
        step_metric: str | None = None,
        step_sync: bool | None = None,
        summary: tuple[str, ...] = (),
        goal: str | None = None,
        hidden: bool | None = None,
    ) -> None:
        self.name, self.step_metric, self.summary, self.hidden = name, step_metric, summary, hidden
        self.step_sync = step_metric is not None if step_sync is None else step_sync
        self.goal = "maximize" if str(goal or "").startswith("max") else "minimize"


class Plan(NamedTuple):
    """What a row of certain names needs."""

    axes: list[str]  # that it lacks
    aggregated: list[tuple[str, Metric]]


class Definitions:
    """All definitions of one run, and the aggregates of the metrics that have one."""

    def __init__(self) -> None:
        self._exact: dict[str, Metric] = {}
        self._prefixes: dict[str, Metric] = {}
        self._by_name: dict[str, Metric | None] = {}  # by the name of a logged value
        self._plans: dict[tuple[str, ...], Plan] = {}
        self.aggregates: dict[str, RunningSummary] = {}
        self.any = False

    def add(self, metric: Metric, *, overwrite: bool = False) -> None:
        """Add a definition; unless it overwrites, what it leaves open stays as it was."""
        table, key = (self._prefixes, metric.name[:-1]) if metric.name.endswith("*") else (self._exact, metric.name)
        before = table.get(key)
        if before is not None and not overwrite:
            metric.step_metric = metric.step_metric or before.step_metric
            metric.step_sync = metric.step_sync or before.step_sync
            metric.summary = metric.summary or before.summary
        table[key] = metric
        self.any = True
        self._by_name.clear()
        self._plans.clear()

    def of(self, name: str) -> Metric | None:
        """The definition of a logged name: its own, or that of the longest prefix."""
        if name not in self._by_name:
            fitting = [prefix for prefix in self._prefixes if name.startswith(prefix)]
            general = self._prefixes[max(fitting, key=len)] if fitting else None
            self._by_name[name] = self._exact.get(name) or general
        return self._by_name[name]

    def complete(self, names: tuple[str, ...], last: Mapping[str, Any]) -> dict[str, Any]:
        """The newest values of the x axes that a row with these names needs and does not have; 0 before the first."""
        return {axis: last.get(axis, 0) for axis in self._plan(names).axes}

    def collect(self, row: Mapping[str, object], names: tuple[str, ...]) -> None:
        """Add the numbers of a row with these names to the aggregates."""
        for name, metric in self._plan(names).aggregated:
            number = convert.number(row.get(name))
            if number is not None:
                self.aggregates.setdefault(name, RunningSummary(metric)).add(number)

    def _plan(self, names: tuple[str, ...]) -> Plan:
        """What rows with these names need; a training loop logs the same few names again and again."""
        plan = self._plans.get(names)
        if plan is None:
            metrics = [(name, metric) for name in names if (metric := self.of(name)) is not None]
            axes = dict.fromkeys(metric.step_metric for _, metric in metrics if metric.step_sync and metric.step_metric)
            plan = Plan([axis for axis in axes if axis not in names], [pair for pair in metrics if pair[1].summary])
            if len(self._plans) < PLANS:
                self._plans[names] = plan
        return plan

    def hides(self, name: str) -> bool:
        """Whether a metric has no summary at all."""
        metric = self.of(name)
        return metric is not None and "none" in metric.summary


class RunningSummary:
    """The summary of one metric over all its values."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._count, self._sum = 0, 0.0
        self._values: dict[str, float] = {}

    def add(self, value: float) -> None:
        self._values["last"] = value
        self._values.setdefault("first", value)
        if value != value:  # NaN is the newest value, and neither the least nor the greatest
            return
        self._count += 1
        self._sum += value
        self._values["mean"] = self._sum / self._count
        self._values["min"] = min(value, self._values.get("min", value))
        self._values["max"] = max(value, self._values.get("max", value))
        self._values["best"] = self._values["max" if self._metric.goal == "maximize" else "min"]

    def summary(self) -> dict[str, float]:
        """The values that were asked for, by operation."""
        return {name: self._values[name] for name in self._metric.summary if name in self._values}


def operations(summary: object) -> tuple[str, ...]:
    """The operations in `summary="min,max"`; unknown ones are reported."""
    names = [name.strip().lower() for name in str(summary or "").split(",") if name.strip()]
    unknown = [name for name in names if name not in OPERATIONS]
    if unknown:
        messages.once(f"summary {unknown}", f"define_metric(summary={summary!r}): choose from: {', '.join(OPERATIONS)}")
    return tuple(name for name in names if name in OPERATIONS)


def aggregate(metric: Metric, values: Iterable[float]) -> dict[str, float]:
    """The summary of a metric from all its values."""
    made = RunningSummary(metric)
    for value in values:
        made.add(value)
    return made.summary()
