"""The history of a stored run: one row for each step, as W&B has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chiplog.core import records
from chiplog.store.reader import Stored


def rows(stored: Stored) -> list[dict[str, Any]]:
    """All rows by step, each with `_step`, `_timestamp` and `_runtime`; of a name logged twice, the last value."""
    start = stored.created
    joined: dict[float, dict[str, Any]] = {}
    for record in stored.records():
        values = dict(_values(record))
        step = getattr(record, "step", None)
        if values and step is not None:
            row = joined.setdefault(step, {})
            row.update(values)
            row["_step"], row["_timestamp"] = step, record.time / 1e9
            row["_runtime"] = max(0.0, (record.time - start) / 1e9)
    return [joined[step] for step in sorted(joined)]


def sampled(history: list[dict[str, Any]], samples: int) -> list[dict[str, Any]]:
    """At most so many rows, evenly spread, with the first and the last."""
    if samples <= 0 or len(history) <= samples:
        return history
    if samples == 1:
        return history[-1:]
    return [history[round(at * (len(history) - 1) / (samples - 1))] for at in range(samples)]


def chosen(
    history: Iterable[dict[str, Any]], keys: Iterable[str] | None, x_axis: str = "_step"
) -> list[dict[str, Any]]:
    """The rows that have all of these keys, with these keys only, as W&B chooses them."""
    if not keys:
        return list(history)
    names = list(dict.fromkeys((x_axis, *([keys] if isinstance(keys, str) else keys))))
    return [{name: row[name] for name in names} for row in history if all(name in row for name in names)]


def _values(record: records.AnyRecord) -> Iterable[tuple[str, Any]]:
    if isinstance(record, records.Step):
        return record.metrics.items() if not record.across else ()
    if isinstance(record, records.Eval):
        return ((records.in_group("eval", name), value) for name, value in record.metrics.items())
    if isinstance(record, records.TextRecord):
        return [(record.name, record.text)]
    if isinstance(record, records.HistogramRecord):
        return [(record.name, {"_type": "histogram", "values": record.counts, "bins": record.edges})]
    if isinstance(record, records.Table):
        return [(record.name, {"_type": "table-file", "nrows": len(record.rows)})]
    if isinstance(record, records.File) and record.step is not None and record.path.startswith("files/media"):
        kind = record.media.partition("/")[0]
        return [(record.name, {"_type": f"{kind}-file", "path": record.path, "size": record.size})]
    return ()
