"""A run for other programs: a wide CSV file, a long Parquet table, or all records as one JSON array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec
import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from chiplog.core.errors import ChiplogError
from chiplog.core.files import reading
from chiplog.core.records import Number
from chiplog.sinks.csv.table import cell, written
from chiplog.sinks.jsonl import line
from chiplog.store import layout
from chiplog.store.contents.ragged import is_ragged
from chiplog.store.points.columns import EXACT, Floats, Ints, Steps, repeats
from chiplog.store.points.series import Series
from chiplog.store.points.shared_steps import places, union
from chiplog.store.reader import Stored

Progress: TypeAlias = Callable[[float], None]  # the fraction done, 0 to 1

CELLS = 1 << 18  # of CSV per write
MOST_CELLS = 1 << 24  # of a CSV file, which may be empty

_encode = msgspec.json.Encoder().encode


def ignore(done: float) -> None:
    """Ignore progress."""


def to_csv(stored: Stored, out: BinaryIO, progress: Progress = ignore) -> None:
    """Write a row per step and a column per series; the step first, then the rank if there are several.

    A name that was logged several times at a step gets several rows, so nothing is lost. Text that a spreadsheet would
    take for a formula is prefixed with an apostrophe. A metric called `step` is left out if it equals the step, and is
    `step/value` otherwise.
    """
    ranks = np.array(sorted({attempt.rank for attempt in stored.attempts}), np.int64)
    leads = ["step", "rank"][: 1 + (len(ranks) > 1)]
    names = sorted(stored.names())
    if "step" in names and all(
        _is_its_step(stored.series("step", rank=rank, missing_ok=True)) for rank in ranks.tolist()
    ):
        names.remove("step")
    titles = [f"{name}/value" if name in leads else name for name in names]
    columns = [
        _Column(at, place, series)
        for at, name in enumerate(names, len(leads))
        for place, rank in enumerate(ranks.tolist())
        if len(series := stored.series(name, rank=rank, missing_ok=True))
    ]
    steps, keys = _grid(columns, len(ranks))
    if is_ragged(len(keys) * len(names), values := sum(len(column.steps) for column in columns), always=MOST_CELLS):
        size = f"{len(keys):,} rows of {len(names):,} columns for {values:,} values"
        raise ChiplogError(f"a CSV file of this run would have {size}: use --to parquet, which has a row per value")
    out.write(b",".join(written(title) for title in (*leads, *titles)) + b"\n")
    rows = max(1, CELLS // (len(leads) + len(names)))
    for start in range(0, len(keys), rows):
        chunk = keys[start : start + rows]
        table = np.full((len(chunk), len(leads) + len(names)), b"", object)
        table[:, 0] = cells(steps[chunk // len(ranks)].tolist())
        if len(ranks) > 1:
            table[:, 1] = cells(ranks[chunk % len(ranks)].tolist())
        for column in columns:
            column.fill(table, start)
        out.write(b"".join(b",".join(row) + b"\n" for row in table.tolist()))
        progress((start + len(chunk)) / len(keys))


def _is_its_step(series: Series) -> bool:
    return bool(np.array_equal(series.steps, series.values))


def to_json(stored: Stored, out: BinaryIO, progress: Progress = ignore) -> None:
    """Write all records as one JSON array, one per line."""
    total = sum(about.st_size for _, about in reading.entries(stored.path, layout.JOURNAL)) or 1
    written, before = 0, b"[\n"
    for record in stored.records():
        text = before + line(record)
        out.write(text)
        written, before = written + len(text), b",\n"
        progress(min(1.0, written / total))
    out.write(b"\n]\n" if written else b"[]\n")


def to_parquet(stored: Stored, temporary: Path) -> None:
    """Write all points as one long table: name, step, time, value, exact, rank, attempt."""
    tables = stored.tables()
    first = next(tables)
    with pq.ParquetWriter(str(temporary), first.schema, compression="zstd") as writer:
        for table in chain([first], tables):
            writer.write_table(table)


class _Column:
    """A series of one rank sorted by step, and the table rows of its points."""

    def __init__(self, at: int, place: int, series: Series) -> None:
        order = np.argsort(series.steps, kind="stable")
        exact = series.exact
        self.at, self.place = at, place
        self.steps = series.steps[order]
        self.repeats = repeats(self.steps)
        self.rows: Ints = np.empty(0, np.int64)
        self._values = series.values[order]
        self._whole = _all_whole(series.values)
        self._exact = {row: exact[at] for row, at in enumerate(order.tolist()) if type(exact[at]) is not float}

    def fill(self, table: NDArray[np.object_], start: int) -> None:
        """Fill in the cells of the rows from `start`."""
        first, last = np.searchsorted(self.rows, [start, start + len(table)]).tolist()
        values: list[Number] = self._values[first:last].tolist()
        if self._whole:
            values = list(map(int, values))
        if self._exact:
            values = [self._exact.get(row, value) for row, value in enumerate(values, first)]
        table[self.rows[first:last] - start, self.at] = cells(values)


def _grid(columns: Sequence[_Column], ranks: int) -> tuple[Steps, Ints]:
    """All steps, and the step and rank of each row of the table.

    Assigns the rows of the columns.
    """
    if not columns:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    steps = union(column.steps for column in columns)
    most = 1 + max(int(column.repeats.max()) for column in columns)
    keys = [(places(steps, column.steps) * ranks + column.place) * most + column.repeats for column in columns]
    rows: Ints = union(keys)  # type: ignore[assignment]  # of integers alone
    for column, key in zip(columns, keys, strict=True):
        column.rows = places(rows, key)
    return steps, rows // most


def _all_whole(values: Floats) -> bool:
    """Whether all values are integers, and none is -0.0."""
    with np.errstate(invalid="ignore"):
        whole = (np.rint(values) == values) & (np.abs(values) < EXACT) & ~((values == 0) & np.signbit(values))
    return bool(whole.all())


def cells(values: list[Number]) -> list[bytes]:
    """Numbers as they are in a CSV file."""
    texts = _encode(values)[1:-1].split(b",")
    if len(texts) != len(values) or b"null" in texts:  # none at all, or NaN and infinities
        return [cell(value) for value in values]
    return texts
