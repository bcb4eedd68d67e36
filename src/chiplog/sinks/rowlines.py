"""Rows as JSON Lines: `{"timestamp": …, "rank": 0, "step": 7, "metrics": {…}}`, one a call; the statistics across ranks
once more under `aggregated`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from chiplog.core import records, values
from chiplog.core.records import AnyRecord, Eval, Matrix, Plain, Step, Text
from chiplog.metrics.stats import ALWAYS
from chiplog.sinks.jsonl import Jsonl

STATISTICS = tuple(f"/{one}" for one in ALWAYS)

_encode = msgspec.json.Encoder().encode


def row_lines(path: Path, rank: int = 0) -> Jsonl:
    """A sink that writes them to a file; one that is there already is continued."""
    return Jsonl(path, say=_saying(rank))


def _saying(rank: int) -> Callable[[AnyRecord], bytes | None]:
    def say(record: AnyRecord) -> bytes | None:
        metrics = _metrics(record)
        if not metrics:
            return None
        line: dict[str, Plain] = {"timestamp": record.time / 1e9, "rank": rank, "step": getattr(record, "step", None)}
        line["metrics"] = metrics
        if found := {name: value for name, value in metrics.items() if _is_statistic(name, metrics)}:
            line["aggregated"] = found
        try:
            text = _encode(line)
        except (ValueError, TypeError, OverflowError):  # lone surrogates, ints beyond what `str` converts
            text = b"null"
        return text if b"null" not in text else _encode(values.plain(_strict(line)))

    return say


def _metrics(record: AnyRecord) -> Mapping[str, Plain]:
    if isinstance(record, Step):
        return record.metrics
    if isinstance(record, Eval):
        return dict(records.points(record))
    if isinstance(record, Matrix):
        return {record.name: record.values[0] if len(record.values) == 1 else record.values}
    if isinstance(record, Text):
        return {record.name: record.text}
    return {}


def _is_statistic(name: str, metrics: Mapping[str, Plain]) -> bool:
    return name.endswith(STATISTICS) and name.rpartition("/")[0] in metrics


def _strict(line: Mapping[str, Plain]) -> Plain:
    """With NaN and infinities as words."""
    return records.fields(records.Event(0, 0, "row", dict(line)))["data"]
