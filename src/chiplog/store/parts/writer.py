"""Writes a part: the files of a segment, each published with a link.

They are written to temporary names, so a reader never sees half of one; the points are last, and the first part wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chiplog.core import records
from chiplog.core.files import writing
from chiplog.core.files.folders import run_of
from chiplog.core.operating_system import sync
from chiplog.core.paths import make_dir, sync_dir
from chiplog.core.records import AnyRecord
from chiplog.store import arrow
from chiplog.store.layout import Segment
from chiplog.store.parts.format import BLOCK, BLOCKS, GROUP, POINTS, ROWS, Name, PartInfo, file_of, seal
from chiplog.store.points.blocks import LONG, blocks
from chiplog.store.points.columns import Column, Ints, Steps, take
from chiplog.store.spans.arrow import to_table
from chiplog.store.spans.columns import SpanColumns

OWN_GROUP = 8192  # a name with this many points has row groups of its own
SHARED = 1 << 16  # rows per group that several names share: reading one of them reads them all

_NAMES = pa.dictionary(pa.int32(), pa.string())
# The split bytes of 65,536 doubles fill blocks of zstd exactly, and each holds bytes that are alike: 8 % smaller.
_PAGES = {"max_rows_per_page": 1 << 16} if "max_rows_per_page" in signature(pq.ParquetWriter).parameters else {}


class PartPoints(Protocol):
    """The series of a segment: `store.points.columns.Columns`, or anything like it."""

    def names(self) -> Iterable[str]: ...
    def column(self, name: str) -> Column: ...
    def clock(self) -> tuple[Ints, Ints]: ...  # seqs and times of all records


def write(
    folder: Path,
    segment: Segment,
    about: PartInfo,
    *,
    points: PartPoints,
    rows: Sequence[AnyRecord],
    spans: SpanColumns,
) -> None:
    """Write and publish the part of a segment in a folder, unless it has one. Fills in `about.names`."""
    if os.path.lexists(file_of(folder, segment, "points")):
        return
    printed = [record for record in rows if isinstance(record, records.ConsoleRecord)]
    others = [record for record in rows if not isinstance(record, records.ConsoleRecord)]
    make_dir(folder) if run_of(folder / "x") is None else writing.make_place(folder)
    short = msgspec.structs.replace(about, names={})
    _publish(file_of(folder, segment, "clock"), [_clock(points)], short)
    _publish(file_of(folder, segment, "spans"), [to_table(spans)], short)
    # Much of what is printed is text that is rarely read.
    _publish(file_of(folder, segment, "rows"), [_rows(others), *([_rows(printed)] if printed else [])], short)
    series = _Series(points, about)
    with _publishing(file_of(folder, segment, "points"), series.groups(), about):
        if series.blocks:
            _publish(file_of(folder, segment, BLOCKS), [pa.concat_tables(series.blocks)], short)
    sync_dir(folder)


class _Series:
    """The series of a segment as row groups, by name and then step."""

    def __init__(self, points: PartPoints, about: PartInfo) -> None:
        self._points, self._about = points, about
        self._names = sorted(points.names())
        whole = all(points.column(name).steps.dtype == np.int64 for name in self._names)
        self._kind = np.int64 if whole else np.float64
        self.blocks: list[pa.Table] = []  # of the long series among the groups so far

    def groups(self) -> Iterator[pa.Table]:
        """The row groups; fills in `names` of the part's description, and `blocks`."""
        waiting: list[tuple[str, Column]] = []
        size = group = 0
        for name in self._names:
            column = _by_step(self._points.column(name))
            count = len(column.seqs)
            if waiting and (count >= OWN_GROUP or size + count > SHARED):
                yield self._table(waiting)
                waiting, size, group = [], 0, group + 1
            spread = max(1, -(-count // GROUP)) if count >= OWN_GROUP else 1
            self._describe(name, column, group, group + spread - 1)
            waiting.append((name, column))
            size += count
            if count >= OWN_GROUP:
                table = self._table(waiting)
                for at in range(0, count, GROUP):
                    yield table.slice(at, GROUP)
                waiting, size, group = [], 0, group + spread
        if waiting or not self._names:
            yield self._table(waiting)

    def _describe(self, name: str, column: Column, first: int, end: int) -> None:
        last = int(np.argmax(column.seqs))
        text = column.exact.get(last)
        value = _plain(float(column.values[last])) if text is None else text
        self._about.names[name] = Name(len(column.seqs), first, end, int(column.seqs[last]), value)
        if len(column.seqs) >= LONG:
            steps: Steps = column.steps.astype(self._kind, copy=False)  # type: ignore[assignment]
            made = blocks(steps, column.values)
            names = pa.repeat(pa.scalar(name), len(made.low))
            self.blocks.append(pa.table([names, *map(pa.array, made)], names=BLOCK.names))

    def _table(self, series: Sequence[tuple[str, Column]]) -> pa.Table:
        if not series:
            return POINTS.empty_table().set_column(0, "name", pa.array([], _NAMES))
        index = np.repeat(np.arange(len(series), dtype=np.int32), [len(column.seqs) for _, column in series])
        return pa.table(
            {
                "name": pa.DictionaryArray.from_arrays(index, pa.array([name for name, _ in series], pa.string())),
                "step": np.concatenate([column.steps.astype(self._kind, copy=False) for _, column in series]),
                "seq": np.concatenate([column.seqs for _, column in series]),
                "value": np.concatenate([column.values for _, column in series]),
                "exact": pa.concat_arrays([arrow.sparse_texts(column.exact, len(column.seqs)) for _, column in series]),
            }
        )


def _by_step(column: Column) -> Column:
    steps, seqs = column.steps, column.seqs
    if bool(np.all(steps[1:] >= steps[:-1])) and bool(np.all(seqs[1:] > seqs[:-1])):  # as it is in most runs
        return column
    return take(column, np.lexsort((seqs, steps)))


def _plain(value: float) -> float | str:
    return value if value - value == 0 else str(value)


def _clock(points: PartPoints) -> pa.Table:
    seqs, times = points.clock()
    order = np.argsort(seqs, kind="stable")
    return pa.table({"seq": seqs[order], "time": times[order]})


def _rows(rows: Sequence[AnyRecord]) -> pa.Table:
    rows = sorted(rows, key=lambda record: record.seq)
    return pa.Table.from_pylist(
        [
            {
                "seq": record.seq,
                "time": record.time,
                "kind": records.kind_of(record),
                "name": getattr(record, "name", None) or getattr(record, "title", None),
                "step": _step(record),
                "record": msgspec.json.encode(records.fields(record)).decode(),
            }
            for record in rows
        ],
        ROWS,
    )


def _step(record: AnyRecord) -> float | None:
    step = getattr(record, "step", None)
    try:
        return None if step is None else float(step)
    except OverflowError:
        return None


def _publish(path: Path, groups: Sequence[pa.Table], about: PartInfo) -> None:
    with _publishing(path, iter(groups), about, is_last=False):
        pass


@contextmanager
def _publishing(path: Path, groups: Iterator[pa.Table], about: PartInfo, *, is_last: bool = True) -> Iterator[None]:
    """Write a file under a temporary name, and put it into place after the block; of the last one, the first wins."""
    aside = writing.new_beside(path, 0o600)
    try:
        _write(aside, groups, about)
        yield
        if not is_last:
            aside.replace(path)  # a compaction that was killed may have left one, of a segment that has grown since
            return
        try:
            os.link(aside, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links; there, of two compactions at once, the second wins
            if not os.path.lexists(path):
                aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)


def _write(temporary: Path, groups: Iterator[pa.Table], about: PartInfo) -> None:
    """Write row groups as they come; `about` is complete after the last one."""
    first = next(groups)
    schema = first.schema
    whole = {"seq", "time", "id", "start", *(["step"] if pa.types.is_integer(_type(schema, "step")) else [])}
    encodings = {name: "DELTA_BINARY_PACKED" for name in schema.names if name in whole}
    encodings |= {name: "BYTE_STREAM_SPLIT" for name in schema.names if name in ("value", "min", "max", "total")}
    texts = [name for name in schema.names if name in ("name", "exact", "kind", "thread", "error")]
    with pq.ParquetWriter(
        str(temporary),
        schema,
        compression="zstd",
        use_dictionary=texts,
        column_encoding=encodings,
        write_statistics=[name for name in schema.names if name not in ("record", "tags", "exact")],
        write_page_checksum=True,
        store_schema=False,  # or a dictionary of names would be one for other readers too
        **_PAGES,
    ) as writer:
        for group in chain([first], groups):
            writer.write_table(group, row_group_size=GROUP)
        writer.add_key_value_metadata({"chiplog": msgspec.json.encode(about).decode()})
    with os.fdopen(writing.open_update(temporary, 0o600), "r+b") as file:
        seal(file)
        file.flush()
        sync(file.fileno())


def _type(schema: pa.Schema, name: str) -> pa.DataType:
    return schema.field(name).type if name in schema.names else pa.null()
