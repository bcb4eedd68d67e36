"""A part: a segment of a journal, read from Parquet, so that a view is fast at any size.

A part records how many bytes of its segment it covers; the rest is read from the segment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from chiplog.core import records
from chiplog.core.files import reading
from chiplog.core.records import AnyRecord, Number
from chiplog.store import arrow, layout
from chiplog.store.journal import lines
from chiplog.store.layout import Segment
from chiplog.store.parts.errors import BrokenPart
from chiplog.store.parts.format import BLOCK, BLOCKS, KINDS, MOST_BYTES, MOST_ROWS, ROWS, PartInfo, file_of, open_file
from chiplog.store.points.blocks import Blocks
from chiplog.store.points.columns import EMPTY, Column, Floats, Ints, Steps, from_text
from chiplog.store.spans.arrow import from_table
from chiplog.store.spans.columns import Batch

FEW = 4096  # records to read at a time, if they are small
BATCH = 4 << 20  # bytes to read at a time
PAGE = 64  # rows of a table to read at a time; a row may be a MiB

_FAR = 1 << 63


class Part:
    """A published part, read lazily; any access to its data may raise `BrokenPart`."""

    def __init__(self, folder: Path, segment: Segment) -> None:
        self._folder, self._segment = folder, segment
        with self._reading():
            self._points = self._open("points")
            self.about = msgspec.json.decode(self._points.schema_arrow.metadata[b"chiplog"], type=PartInfo)
            _check(self.about, self._points.num_row_groups)

    def beyond(self, path: Path) -> lines.Scanner:
        """A scanner for the segment beyond this part; a pruned segment has nothing more."""
        return lines.Scanner(path, self.about.covers, ended=lines.located(path) != path)

    def column(self, name: str) -> Column:
        table = self._rows_of(name, ["step", "seq", "value", "exact"])
        if table is None:
            return EMPTY
        with self._reading():
            texts = table["exact"]
            exact: dict[int, str] = {}
            if texts.null_count < len(texts):
                exact = {at: text for at, text in enumerate(texts.to_pylist()) if text is not None}
                for text in {*exact.values()}:
                    from_text(text)
            return Column(arrow.numbers(table["step"]), arrow.ints(table["seq"]), arrow.doubles(table["value"]), exact)

    def places(self, name: str) -> tuple[Steps, Floats]:
        """The steps and values of a series by step: all that a curve needs, and less to read than the column."""
        # One thread: callers that draw many series read them in parallel.
        table = self._rows_of(name, ["step", "value"], use_threads=False)
        if table is None:
            return EMPTY.steps, EMPTY.values
        with self._reading():
            return arrow.numbers(table["step"]), arrow.doubles(table["value"])

    def blocks(self, name: str) -> Blocks | None:
        """A series in blocks by step; None if it is short, or the part was written before there were blocks."""
        blocks = self._blocks.get(name)
        if blocks is not None and int(blocks.counts.sum()) != self.about.names[name].count:
            raise BrokenPart(f"{self._segment.stem}: the blocks of {name!r} do not add up")
        return blocks

    @cached_property
    def _blocks(self) -> dict[str, Blocks]:
        with self._reading():
            path = file_of(self._folder, self._segment, BLOCKS)
            if not reading.exists(path.parents[1], f"{path.parent.name}/{path.name}"):
                return {}
            table = self._open(BLOCKS).read(use_threads=False)
            names = table["name"].to_pylist()
            columns = [arrow.numbers(table[name]) for name in BLOCK.names[1:]]
            starts = [at for at, name in enumerate(names) if not at or name != names[at - 1]]
            return {
                names[start]: Blocks._make(column[start:end] for column in columns)
                for start, end in zip(starts, [*starts[1:], len(names)], strict=True)
                if names[start] in self.about.names
            }

    def _rows_of(self, name: str, columns: list[str], *, use_threads: bool = True) -> pa.Table | None:
        """The points of a series; names that share a row group are stored in the order of `about`."""
        where = self.about.names.get(name)
        if where is None:
            return None
        groups = list(range(where.first_group, where.last_group + 1))
        with self._reading():
            if len(groups) == 1 and self._points.metadata.row_group(groups[0]).num_rows > where.count:
                table = _shared_group(self, groups[0])
            else:
                table = self._points.read_row_groups(groups, columns=columns, use_threads=use_threads)
            rows = table.select(columns).slice(self._starts[name], where.count)
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

    def count(self, name: str) -> int:
        """How many points a series has."""
        where = self.about.names.get(name)
        return 0 if where is None else where.count

    def last(self) -> Iterator[tuple[str, int, Number]]:
        """(name, seq, value) of the last point of every series."""
        for name, where in self.about.names.items():
            yield name, where.last_seq, _number(where.last)

    def last_of(self, name: str) -> tuple[int, Number] | None:
        """(seq, value) of the last point of a series."""
        where = self.about.names.get(name)
        return None if where is None else (where.last_seq, _number(where.last))

    @cached_property
    def clock(self) -> tuple[Ints, Ints]:
        """(seqs, times) of all records, by seq."""
        with self._reading():
            table = self._open("clock").read()
            return arrow.ints(table["seq"]), arrow.ints(table["time"])

    @property
    def step_range(self) -> tuple[Number, Number] | None:
        """The lowest and highest step of its points, from the footer; None if it has none."""
        about = self._points.metadata
        at = self._points.schema_arrow.names.index("step")
        of_groups = [about.row_group(group).column(at).statistics for group in range(about.num_row_groups)]
        statistics = [one for one in of_groups if one is not None and one.has_min_max]
        return (min(one.min for one in statistics), max(one.max for one in statistics)) if statistics else None

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The `seq` numbers of its records, as ranges: first and last."""
        seqs = self.clock[0]
        if not len(seqs):
            return []
        breaks = (seqs[1:] > seqs[:-1] + 1).nonzero()[0]
        firsts, lasts = [seqs[0], *seqs[breaks + 1]], [*seqs[breaks], seqs[-1]]
        return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]

    def rows(self, *kinds: str) -> list[AnyRecord]:
        """The records that are neither steps nor spans: all of them, or those of some kinds."""
        return sorted(self.stream(*kinds), key=lambda record: record.seq)

    def stream(self, *kinds: str) -> Iterator[AnyRecord]:
        """What `rows` returns, a few at a time and in the order of the file: printed lines are last."""
        for batch in self._batches("kind", "record", kinds=kinds):
            yield from self._reading_each(_decoded(batch, lambda kind: not kinds or kind in kinds))

    def at(self, seqs: Collection[int], *kinds: str) -> Iterator[AnyRecord]:
        """The records with these numbers, a few at a time."""
        wanted = set(seqs)
        for batch in self._batches("seq", "kind", "record", kinds=kinds):
            yield from self._reading_each(_decoded(batch, lambda seq, kind: seq in wanted and kind in kinds))

    def _batches(self, *columns: str, kinds: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._reading():
            file = self._open("rows")
            about = file.metadata
            groups = [at for at in range(about.num_row_groups) if _may_hold(about.row_group(at), kinds)]
            size = sum(about.row_group(at).total_byte_size for at in groups)
            rows = sum(about.row_group(at).num_rows for at in groups)
            few = max(16, min(FEW, BATCH * max(1, rows) // max(1, size)))
            batches = file.iter_batches(few, row_groups=groups, columns=list(columns), use_threads=False)
        read = 0
        while True:
            with self._reading():
                batch = next(batches, None)
                read += 0 if batch is None else batch.nbytes
                if read > MOST_BYTES:
                    raise ValueError(f"it has more than {MOST_BYTES:,} bytes of records")
            if batch is None:
                return
            yield batch

    def table(self, name: str) -> Iterator[AnyRecord]:
        """The records of a table, a few at a time."""
        with self._reading():
            batches = self._open("rows").iter_batches(PAGE, columns=["kind", "name", "record"])
            first = next(batches, None)
        return self._table(name, first, batches)

    def _table(self, name: str, batch: pa.RecordBatch | None, batches: Iterator[pa.RecordBatch]) -> Iterator[AnyRecord]:
        while batch is not None:
            yield from self._reading_each(_decoded(batch, lambda kind, of: kind == "table" and of == name))
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
            self._blocks  # noqa: B018  read if there are any

    def _open(self, kind: str) -> pq.ParquetFile:
        opened = open_file(file_of(self._folder, self._segment, kind))
        if kind != "points":
            about = msgspec.json.decode(opened.metadata.metadata[b"chiplog"], type=PartInfo)
            if (about.covers, about.records) != (self.about.covers, self.about.records):
                raise ValueError(f"its {kind} are of another compaction, which covers {about.covers:,} bytes")
        return opened

    def _reading_each(self, decoded: Iterator[AnyRecord]) -> Iterator[AnyRecord]:
        try:
            yield from decoded
        except Exception as error:  # a record that we never write
            raise BrokenPart(f"{self._segment.stem}: {error}") from error

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # damaged Parquet can raise nearly everything
            raise BrokenPart(f"{self._segment.stem}: {error}") from error


@lru_cache(maxsize=8)  # of at most 65,536 rows; who reads one name of a group mostly reads the others next
def _shared_group(part: Part, group: int) -> pa.Table:
    """A row group that several names share."""
    return part._points.read_row_group(group, columns=["step", "seq", "value", "exact"], use_threads=False)


def _number(last: Number | str) -> Number:
    if not isinstance(last, str):
        return last
    return records.NONFINITE[last] if last in records.NONFINITE else from_text(last)


def _decoded(batch: pa.RecordBatch, wanted: Callable[..., bool]) -> Iterator[AnyRecord]:
    """The records of the rows whose other columns are wanted, without Arrow's filters, which are slow to import."""
    *others, lines = batch.columns
    for line, *cells in zip(lines, *(column.to_pylist() for column in others), strict=True):
        if wanted(*cells):
            record = records.decode(line.as_py().encode())
            if not (-_FAR <= record.seq < _FAR and -_FAR <= record.time < _FAR):
                raise ValueError("a record is out of range")
            yield record


def _check(about: PartInfo, groups: int) -> None:
    """Raise `ValueError` for a description that we do not write."""
    numbers = (about.covers, about.records, about.first_time, about.last_time, about.last_seq, about.first_seq)
    if not all(-_FAR <= number < _FAR for number in numbers) or about.covers < 0:
        raise ValueError("its description is out of range")
    if not all(0 <= start < _FAR and 0 <= end < _FAR for start, end, _ in about.damage):
        raise ValueError("its damage is out of range")
    for name, where in about.names.items():
        if isinstance(where.last, str) and where.last not in records.NONFINITE:
            from_text(where.last)
        inside = 0 <= where.first_group <= where.last_group < groups
        if not inside or not 0 < where.count <= MOST_ROWS["points"] or not -_FAR <= where.last_seq < _FAR:
            raise ValueError(f"{name!r} is not where its description says")


def load(run: Path, segment: Segment) -> Part | None:
    """The part of a segment, if there is one and it is whole."""
    if not layout.has_part(run, segment):
        return None
    try:
        return Part(run / layout.PARTS, segment)
    except BrokenPart:
        return None


def _may_hold(group: pq.RowGroupMetaData, kinds: Sequence[str]) -> bool:
    """Whether a row group may have records of these kinds, by its least and greatest kind."""
    if not kinds:
        return True
    range_ = group.column(ROWS.get_field_index("kind")).statistics
    return range_ is None or not range_.has_min_max or any(range_.min <= kind <= range_.max for kind in kinds)
