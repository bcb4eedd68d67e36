"""The rows of a history, one per update, in the order they came: with the statistics that came later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chiplog.core.records import NONFINITE, Eval, Step, points
from chiplog.sinks.shared.update_rows import Updates
from chiplog.store.reader import Stored


class Logged(NamedTuple):
    step: int | float | None
    metrics: dict[str, Any]


def rows(stored: Stored) -> list[Logged]:
    """Everything that was logged so far; what is known of the ranks themselves is not."""
    found: list[Logged] = []
    late: list[tuple[int, int | float, Mapping[str, Any]]] = []
    updates = Updates()
    for record in stored.records():
        if isinstance(record, (Step, Eval)) and record.across:
            metrics: Mapping[str, Any] = record.metrics if isinstance(record, Step) else dict(points(record))
            late.append((len(found), record.step, metrics))
        found += [Logged(one.step, _plain(one.metrics)) for one in updates.feed(record)]
    found += [Logged(one.step, _plain(one.metrics)) for one in updates.drain()]
    for at, step, metrics in late:
        _add_late(found, at, step, metrics)
    return found


def _add_late(found: list[Logged], at: int, step: int | float, metrics: Mapping[str, Any]) -> None:
    """Put statistics in the newest row of their step that has their metric, and not its statistics."""
    for name, value in metrics.items():
        base = name.rpartition("/")[0]
        for row in _backwards(found, at):
            if row.step == step and base in row.metrics:
                row.metrics.setdefault(name, value)
                break


def _backwards(found: list[Logged], at: int) -> Iterator[Logged]:
    """The rows before a place, the newest first; and those that were joined after it."""
    yield from reversed(found[:at])
    yield from found[at:]


def _plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _numbers(value) for name, value in metrics.items()}


def _numbers(value: Any) -> Any:
    """A vector or matrix with its NaN and infinities as numbers."""
    return (
        [_numbers(NONFINITE.get(one, one) if isinstance(one, str) else one) for one in value]
        if isinstance(value, list)
        else value
    )
