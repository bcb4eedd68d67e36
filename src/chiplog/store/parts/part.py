"""A part: a segment of a journal, read from Parquet, so that a view is fast at any size.

A part records how many bytes of its segment it covers; the rest is read from the segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number
from chiplog.store import arrow, layout
from chiplog.store.journal import lines
from chiplog.store.layout import Segment
from chiplog.store.parts.errors import BrokenPart
from chiplog.store.parts.format import KINDS, ROWS, About, file_of, open_file
from chiplog.store.points.columns import EMPTY, Column, Floats, Ints, Steps, from_text
from chiplog.store.spans.arrow import from_table
from chiplog.store.spans.columns import Batch

PAGE = 64  # rows of a table to read at a time; a row may be a MiB


class Part:
    """A published part, read lazily; any access to its data may raise `BrokenPart`."""

    def __init__(self, run: Path, segment: Segment) -> None:
        self._run, self._segment = run, segment
        with self._reading():
            self._points = self._open("points")
            self.about = msgspec.json.decode(self._points.schema_arrow.metadata[b"chiplog"], type=About)

    def beyond(self, path: Path) -> lines.Scanner:
        """A scanner for the segment beyond this part; a pruned segment has nothing more."""
        return lines.Scanner(path, self.about.covers, ended=lines.located(path) != path)

    def column(self, name: str) -> Column:
        table = self._rows_of(name, ["step", "seq", "value", "exact"])
        if table is None:
            return EMPTY
        texts = table["exact"]
        exact: dict[int, str] = {}
        if texts.null_count < len(texts):
            exact = {at: text for at, text in enumerate(texts.to_pylist()) if text is not None}
        return Column(arrow.numbers(table["step"]), arrow.ints(table["seq"]), arrow.doubles(table["value"]), exact)

    def places(self, name: str) -> tuple[Steps, Floats]:
        """The steps and values of a series by step: all that a curve needs, and less to read than the column."""
        # One thread: callers that draw many series read them in parallel.
        table = self._rows_of(name, ["step", "value"], use_threads=False)
        if table is None:
            return EMPTY.steps, EMPTY.values
        return arrow.numbers(table["step"]), arrow.doubles(table["value"])

    def _rows_of(self, name: str, columns: list[str], *, use_threads: bool = True) -> pa.Table | None:
        """The points of a series; names that share a row group are stored in the order of `about`."""
        where = self.about.names.get(name)
        if where is None:
            return None
        groups = list(range(where.first_group, where.last_group + 1))
        with self._reading():
            table = self._points.read_row_groups(groups, columns=columns, use_threads=use_threads)
            rows = table.slice(self._starts[name], where.count)
            if len(rows) < where.count:
                raise ValueError(f"{name!r} has {len(rows)} of {where.count} points")
        # A copy, so that one series does not keep the memory of the whole group.
        return rows if len(rows) == len(table) else pa.concat_tables([rows, rows.slice(0, 0)]).combine_chunks()

    @cached_property
    def _starts(self) -> dict[str, int]:
        """The row at which each series starts within its first row group."""
        starts: dict[str, int] = {}
        group = end = -1
        for name, where in self.about.names.items():
            start = end if where.first_group == group else 0
            starts[name], group, end = start, where.first_group, start + where.count
        return starts

    def last(self) -> Iterator[tuple[str, int, Number]]:
        """(name, seq, value) of the last point of every series."""
        for name, where in self.about.names.items():
            last = where.last
            if isinstance(last, str):
                last = records.NONFINITE[last] if last in records.NONFINITE else from_text(last)
            yield name, where.last_seq, last

    @cached_property
    def clock(self) -> tuple[Ints, Ints]:
        """(seqs, times) of all records, by seq."""
        with self._reading():
            table = self._open("clock").read()
        return arrow.ints(table["seq"]), arrow.ints(table["time"])

    def rows(self, *kinds: str) -> list[AnyRecord]:
        """The records that are neither steps nor spans: all of them, or those of some kinds."""
        rows: list[AnyRecord] = []
        with self._reading():
            file = self._open("rows")
            for group in range(file.num_row_groups):
                if not _may_hold(file.metadata.row_group(group), kinds):
                    continue
                table = file.read_row_group(group, columns=["kind", "record"])
                if kinds:
                    table = table.filter(
                        reduce(pc.or_, (pc.equal(table["kind"], arrow.scalar(kind)) for kind in kinds))
                    )
                rows += [records.decode(line.encode()) for line in table["record"].to_pylist()]
        return sorted(rows, key=lambda record: record.seq)

    def table(self, name: str) -> Iterator[AnyRecord]:
        """The records of a table, a few at a time."""
        with self._reading():
            batches = self._open("rows").iter_batches(PAGE, columns=["kind", "name", "record"])
            first = next(batches, None)
        return self._table(name, first, batches)

    def _table(self, name: str, batch: pa.RecordBatch | None, batches: Iterator[pa.RecordBatch]) -> Iterator[AnyRecord]:
        while batch is not None:
            mine = pc.and_(pc.equal(batch["kind"], "table"), pc.equal(batch["name"], name))
            for line in batch.filter(mine)["record"].to_pylist():
                yield records.decode(line.encode())
            with self._reading():
                batch = next(batches, None)

    def spans(self) -> list[Batch]:
        with self._reading():
            return [from_table(self._open("spans").read())]

    @cached_property
    def has_spans(self) -> bool:
        with self._reading():
            return int(self._open("spans").metadata.num_rows) > 0

    def verify(self) -> None:
        """Read every byte; raises `BrokenPart` if one is not as written."""
        with self._reading():
            for kind in KINDS:
                self._open(kind).read()

    def _open(self, kind: str) -> pq.ParquetFile:
        return open_file(file_of(self._run, self._segment, kind))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # damaged Parquet can raise nearly everything
            raise BrokenPart(f"{self._segment.stem}: {error}") from error


def load(run: Path, segment: Segment) -> Part | None:
    """The part of a segment, if there is one and it is whole."""
    if not layout.has_part(run, segment):
        return None
    try:
        return Part(run, segment)
    except BrokenPart:
        return None


def _may_hold(group: pq.RowGroupMetaData, kinds: Sequence[str]) -> bool:
    """Whether a row group may have records of these kinds, by its least and greatest kind."""
    if not kinds:
        return True
    range_ = group.column(ROWS.get_field_index("kind")).statistics
    return range_ is None or not range_.has_min_max or any(range_.min <= kind <= range_.max for kind in kinds)
