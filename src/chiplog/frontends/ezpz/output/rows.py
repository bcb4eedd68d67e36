"""The rows of a history, one per update and in their order, with statistics that were computed later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from chiplog import Stored
from chiplog.core.records import Eval, Plain, Step, points
from chiplog.sinks.shared.history_updates import Update, Updates, numbers


class LoggedRow(NamedTuple):
    step: int | float | None
    metrics: dict[str, Plain]


def rows(stored: Stored) -> list[LoggedRow]:
    """Everything that has been logged."""
    logged: list[LoggedRow] = []
    late: list[tuple[int, int | float, Mapping[str, Plain]]] = []
    updates = Updates()
    for record in stored.records():
        if isinstance(record, (Step, Eval)) and record.across:
            metrics: Mapping[str, Plain] = record.metrics if isinstance(record, Step) else dict(points(record))
            late.append((len(logged), record.step, metrics))
        logged += map(_row, updates.feed(record))
    logged += map(_row, updates.drain())
    for end, step, statistics in late:
        _add_statistics(logged, end, step, statistics)
    return logged


def table(stored: Stored) -> tuple[list[str], list[list[Plain]]]:
    """Everything as one table, in the order of updates: a column per metric, None where an update has no value.

    Updates of one step that have no name in common share a row. A metric called `step` is the step column, or
    `step/value` if it differs.
    """
    merged: list[LoggedRow] = []
    for row in rows(stored):
        if merged and merged[-1].step == row.step and merged[-1].metrics.keys().isdisjoint(row.metrics):
            merged[-1].metrics.update(row.metrics)
        else:
            merged.append(row)
    step_name = "step/value" if any(row.metrics.get("step", row.step) != row.step for row in merged) else ""
    renamed = [{step_name if name == "step" else name: value for name, value in row.metrics.items()} for row in merged]
    columns = [name for name in dict.fromkeys(name for row in renamed for name in row) if name]
    return ["step", *columns], [[one.step, *map(row.get, columns)] for one, row in zip(merged, renamed, strict=True)]


def _add_statistics(logged: list[LoggedRow], end: int, step: int | float, metrics: Mapping[str, Plain]) -> None:
    """Add statistics to the newest row of their step that has their metric but not the statistics."""
    for name, value in metrics.items():
        base = name.rpartition("/")[0]
        for row in _backwards(logged, end):
            if row.step == step and base in row.metrics:
                row.metrics.setdefault(name, value)
                break


def _backwards(logged: list[LoggedRow], end: int) -> Iterator[LoggedRow]:
    """The rows before `end`, newest first, then those that were completed later."""
    yield from reversed(logged[:end])
    yield from logged[end:]


def _row(update: Update) -> LoggedRow:
    return LoggedRow(update.step, {name: numbers(value) for name, value in update.metrics.items()})
