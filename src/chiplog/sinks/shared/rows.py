"""Rows: joins what several calls have logged for one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from chiplog.core import messages, records
from chiplog.core.records import AnyRecord, Attempt, Eval, Event, MatrixRecord, Plain, Step
from chiplog.core.values import convert
from chiplog.store import manifest
from chiplog.store.contents.ragged import is_ragged, most_cells
from chiplog.store.journal.tail import Tail

Metrics = Mapping[str, int | float | bool | str]


class Row(NamedTuple):
    step: int | float | None
    time: int  # of its first record
    metrics: Metrics


class Rows:
    """Turns records into rows; consecutive `Step` records of one step with different names become one.

    A repeated name, another step or another attempt starts a new row. An eval ends the row before it; it and the
    numbers of an event are rows of their own. With `joined=False` every record is a row.
    """

    def __init__(self, joined: bool = True) -> None:
        self._joined = joined
        self._held: Row | None = None

    def feed(self, record: AnyRecord) -> list[Row]:
        """The rows that this record finishes."""
        if type(record) is Step:
            row = Row(record.step, record.time, record.metrics)
            if not self._joined:
                return [row]
            held = self._held
            if held is None:
                self._held = row
                return []
            if held.step == row.step and held.metrics.keys().isdisjoint(row.metrics):
                self._held = Row(held.step, held.time, {**held.metrics, **row.metrics})
                return []
            self._held = row
            return [held]
        if isinstance(record, Eval):
            return self.drain() + _split(record)
        if isinstance(record, Attempt):
            return self.drain()
        return _split(record) if isinstance(record, Event) else []

    def holds(self, step: int | float) -> bool:
        """Whether the row of a step is still open."""
        return self._held is not None and self._held.step == step

    def drain(self) -> list[Row]:
        """The row that is still held, if there is one."""
        held, self._held = self._held, None
        return [] if held is None else [held]

    def save(self) -> str | None:
        """The held row as a line of JSON; a `Rows` that loads it continues from here."""
        if self._held is None:
            return None
        step, time, metrics = self._held
        record = Step(0, time, step or 0, dict(metrics))
        try:
            return records.encode(record).decode()
        except (ValueError, TypeError):  # lone surrogates and the like
            return records.encode(convert.encodable(record)).decode()

    def load(self, saved: str | None) -> None:
        self._held = None
        if saved is not None:
            self.feed(records.decode(saved.encode()))


def tabulate(rows: Sequence[Mapping[str, Plain]], what: str = "a table") -> tuple[list[str], list[list[Plain]]]:
    """The columns of rows, in order of appearance, and their cells.

    Rows that share few names would be mostly empty cells: the last columns are left out, which is reported.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    values = sum(map(len, rows))
    if is_ragged(len(rows) * len(columns), values):
        fitting = most_cells(values) // len(rows)
        shared = f"{len(rows):,} rows that share few of their {len(columns):,} names"
        messages.once(f"ragged {what}", f"{what} has {shared}: {fitting:,} columns are sent")
        del columns[fitting:]
    return columns, [[row.get(name) for name in columns] for row in rows]


def is_too_ragged(record: MatrixRecord, sink: str) -> bool:
    """Whether a matrix with rows of one length would be much larger than the record, which is reported."""
    width, cells = max(map(len, record.values), default=0), sum(map(len, record.values))
    ragged = is_ragged(len(record.values) * width, len(record.values) + cells)
    if ragged:
        name = record.name[:60]
        messages.once(f"ragged {sink} {name}", f"{sink}: matrix {name!r} is not sent: too ragged")
    return ragged


def read_journal(run: Path) -> Iterator[AnyRecord]:
    """All records of the main rank of a run."""
    tail = Tail(run, rank=manifest.load(run).rank)
    while batch := tail.read():
        yield from batch


def _split(record: Eval | Event) -> list[Row]:
    """The points of a record as rows; more than one if a name is repeated."""
    rows: list[dict[str, int | float]] = []
    for name, value in records.points(record):
        if not rows or name in rows[-1]:
            rows.append({})
        rows[-1][name] = value
    return [Row(record.step, record.time, metrics) for metrics in rows]
