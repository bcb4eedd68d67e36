"""Writes a part: the four files of a segment, each published with a link.

They are written to temporary names, so the first part wins and a reader never sees half of one. Nothing is deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chiplog.core import records
from chiplog.core.paths import make_dir
from chiplog.core.records import AnyRecord
from chiplog.store import arrow, layout
from chiplog.store.layout import Segment
from chiplog.store.parts.format import KINDS, POINTS, ROWS, About, Name, file_of, seal
from chiplog.store.points.columns import Column, Ints, take
from chiplog.store.spans.arrow import to_table
from chiplog.store.spans.columns import SpanColumns

OWN_GROUP = 16_384  # a name with this many points has row groups of its own
GROUP = 1 << 20  # rows per row group at most
SHARED = 1 << 16  # rows per group that several names share: reading one of them reads them all


class Points(Protocol):
    """The series of a segment: `store.points.columns.Columns`, or anything like it."""

    def names(self) -> Iterable[str]: ...
    def column(self, name: str) -> Column: ...
    def clock(self) -> tuple[Ints, Ints]: ...  # seqs and times of all records


def write(
    run: Path, segment: Segment, about: About, *, points: Points, rows: Sequence[AnyRecord], spans: SpanColumns
) -> None:
    """Write and publish the part of a segment; existing files stay. Fills in `about.names`."""
    printed = [record for record in rows if isinstance(record, records.ConsoleRecord)]
    others = [record for record in rows if not isinstance(record, records.ConsoleRecord)]
    groups = {
        "clock": [_clock(points)],
        "spans": [to_table(spans)],
        "rows": [_rows(others), *([_rows(printed)] if printed else [])],  # much text, rarely read
        "points": list(_points(points, about)),
    }
    make_dir(run / layout.PARTS)
    for kind in KINDS:
        metadata = about if kind == "points" else msgspec.structs.replace(about, names={})
        _publish(file_of(run, segment, kind), groups[kind], metadata)


def _points(points: Points, about: About) -> Iterator[pa.Table]:
    """Row groups of points by name, then step; fills in `about.names`."""
    waiting: list[tuple[str, Column]] = []
    size = group = 0
    whole = all(points.column(name).steps.dtype == np.int64 for name in points.names())
    kind = np.int64 if whole else np.float64

    def emit() -> pa.Table:
        names = pa.array([name for name, _ in waiting], pa.string())
        index = np.repeat(np.arange(len(waiting), dtype=np.int32), [len(column.seqs) for _, column in waiting])
        return pa.table(
            {
                "name": pa.DictionaryArray.from_arrays(index, names).cast(pa.string()),
                "step": np.concatenate([column.steps.astype(kind, copy=False) for _, column in waiting]),
                "seq": np.concatenate([column.seqs for _, column in waiting]),
                "value": np.concatenate([column.values for _, column in waiting]),
                "exact": pa.concat_arrays(
                    [arrow.sparse_texts(column.exact, len(column.seqs)) for _, column in waiting]
                ),
            }
        )

    for name in sorted(points.names()):
        column = _by_step(points.column(name))
        count = len(column.seqs)
        if waiting and (count >= OWN_GROUP or size + count > SHARED):
            yield emit()
            waiting, size, group = [], 0, group + 1
        last = int(np.argmax(column.seqs))
        text = column.exact.get(last)
        value = _plain(float(column.values[last])) if text is None else text
        spread = max(1, -(-count // GROUP)) if count >= OWN_GROUP else 1
        about.names[name] = Name(count, group, group + spread - 1, int(column.seqs[last]), value)
        waiting.append((name, column))
        size += count
        if count >= OWN_GROUP:
            table = emit()
            for at in range(0, count, GROUP):
                yield table.slice(at, GROUP)
            waiting, size, group = [], 0, group + spread
    if waiting or not about.names:
        yield emit() if waiting else POINTS.empty_table()


def _by_step(column: Column) -> Column:
    return take(column, np.lexsort((column.seqs, column.steps)))


def _plain(value: float) -> float | str:
    return value if value - value == 0 else str(value)


def _clock(points: Points) -> pa.Table:
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


def _publish(path: Path, groups: Sequence[pa.Table], about: About) -> None:
    """Write a file under a temporary name and link it into place; an existing one stays."""
    aside = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    schema = groups[0].schema.with_metadata({b"chiplog": msgspec.json.encode(about)})
    whole = {"seq", "time", "id", "start", *(["step"] if pa.types.is_integer(_type(schema, "step")) else [])}
    encodings = {name: "DELTA_BINARY_PACKED" for name in schema.names if name in whole}
    if "value" in schema.names:
        encodings["value"] = "BYTE_STREAM_SPLIT"
    try:
        with pq.ParquetWriter(
            str(aside),
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name in ("name", "exact", "kind", "thread", "error")],
            column_encoding=encodings,
            write_statistics=True,
            write_page_checksum=True,
        ) as writer:
            for group in groups:
                writer.write_table(group.replace_schema_metadata(schema.metadata), row_group_size=GROUP)
        aside.chmod(0o600)
        with aside.open("r+b") as file:
            seal(file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(aside, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links; there, of two compactions at once, the second wins
            if not path.exists():
                aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)


def _type(schema: pa.Schema, name: str) -> pa.DataType:
    return schema.field(name).type if name in schema.names else pa.null()
