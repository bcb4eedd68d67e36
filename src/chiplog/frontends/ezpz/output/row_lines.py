"""Updates as JSON Lines: `{"timestamp": …, "rank": 0, "step": 7, "metrics": {…}}`, one per call; the statistics across
ranks once more under `aggregated`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from chiplog.core import records
from chiplog.core.records import AnyRecord, Plain
from chiplog.core.values import convert
from chiplog.metrics.ranks.statistics import ALWAYS
from chiplog.sinks.jsonl import Jsonl
from chiplog.sinks.shared.update_rows import Update, Updates

STATISTICS = tuple(f"/{one}" for one in ALWAYS)

_encode = msgspec.json.Encoder().encode


class RowLines:
    """A file with a line for every update; one that is there already is continued."""

    def __init__(self, path: Path, rank: int = 0) -> None:
        self._rank = rank
        self._updates = Updates()
        self._file = Jsonl(path, encode=self._line)  # type: ignore[arg-type]  # it is given updates, and no records

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self._write([update for record in batch for update in self._updates.feed(record)])

    def close(self) -> None:
        self._write(self._updates.drain())
        self._file.close()

    def state(self) -> dict[str, Plain]:
        return {**self._file.state(), "waiting": self._updates.save()}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self._file.restore(state)
        self._updates.load(state.get("waiting"))

    def _write(self, updates: list[Update]) -> None:
        self._file.write(updates)  # type: ignore[arg-type]

    def _line(self, update: Update) -> bytes:
        metrics = update.metrics
        line: dict[str, Plain] = {"timestamp": update.time / 1e9, "rank": self._rank, "step": update.step}
        line["metrics"] = metrics
        if found := {name: value for name, value in metrics.items() if _is_statistic(name, metrics)}:
            line["aggregated"] = found
        try:
            text = _encode(line)
        except (ValueError, TypeError, OverflowError):  # lone surrogates, ints beyond what `str` converts
            text = b"null"
        return text if b"null" not in text else _encode(convert.plain(_strict(line)))


def _is_statistic(name: str, metrics: Mapping[str, Plain]) -> bool:
    return name.endswith(STATISTICS) and name.rpartition("/")[0] in metrics


def _strict(line: Mapping[str, Plain]) -> Plain:
    """With NaN and infinities as words."""
    return records.fields(records.Event(0, 0, "row", dict(line)))["data"]
