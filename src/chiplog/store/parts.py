"""Parts: a journal segment as Parquet, so that a view is fast at any size and every data tool can read a run.

Each part says how many bytes of its segment it covers; what lies beyond is read from the segment. Parts are written
aside and published with a link, so the first one wins and a reader never sees half of one. Nothing is ever deleted
here, but for a segment that `prune` has turned into `.jsonl.zst`.

Parquet has checksums for its pages and none for its footer, so a part carries one more, right before the footer, where
other readers do not look. What does not match is `Broken`, and the segment is read instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chiplog.core import records
from chiplog.core.files import make_dir
from chiplog.core.records import AnyRecord
from chiplog.store import arrow, layout, lines
from chiplog.store.columns import EMPTY, Column, Columns, Floats, Ints, Steps, from_text, take
from chiplog.store.layout import Segment
from chiplog.store.spans import Span, expand

KINDS = ("clock", "spans", "rows", "points")  # points is published last: where it is, the others are
OWN_GROUP = 16_384  # points from which a name has row groups of its own
GROUP = 1 << 20  # rows to a row group at most
SHARED = 1 << 16  # rows to one that several names share: whoever reads one of them reads them all
PAGE = 64  # rows of a table that are read at a time; a row may be a MiB
_MAGIC = b"PAR1"
_SEAL = 4  # bytes: the CRC-32 of what stands behind it

_ROWS = pa.schema(
    [
        ("seq", pa.int64()),
        ("time", pa.int64()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("step", pa.float64()),
        ("record", pa.string()),
    ]
)
_SPANS = pa.schema(
    [
        ("id", pa.int64()),
        ("parent", pa.int64()),
        ("name", pa.string()),
        ("thread", pa.string()),
        ("start", pa.int64()),
        ("duration", pa.int64()),
        ("step", pa.float64()),
        ("tags", pa.string()),
        ("failed", pa.bool_()),
        ("kind", pa.string()),
        ("error", pa.string()),
    ]
)


class About(msgspec.Struct):
    """What a part says of itself, in the metadata of each of its files."""

    segment: str
    covers: int
    records: int
    first_time: int
    last_time: int
    last_seq: int
    first_step: int | float | None = None
    first_seq: int = -1
    last_step: int | float | None = None
    begin_step: int | float | None = None
    damage: list[tuple[int, int, str]] = []
    names: dict[str, Name] = {}


class Name(msgspec.Struct, array_like=True):
    """Where the points of a series are in a part, and the last of them."""

    count: int
    first_group: int
    last_group: int
    last_seq: int
    last: int | float | bool | str


class Broken(Exception):
    """A part whose bytes are not those that were written; its segment says what it said."""


class Part:
    """A published part, read lazily; whatever is asked of its data may raise `Broken`."""

    def __init__(self, run: Path, segment: Segment) -> None:
        self._stem = run / layout.PARTS / segment.stem
        self._segment = segment
        with self._reading():
            self._points = self._open("points")
            self.about = msgspec.json.decode(self._points.schema_arrow.metadata[b"chiplog"], type=About)

    def beyond(self, path: Path) -> lines.Scanner:
        """A scanner for what the segment holds beyond this part; one that was pruned holds nothing more."""
        return lines.Scanner(path, self.about.covers, ended=lines.located(path) != path)

    def names(self) -> list[str]:
        return list(self.about.names)

    def column(self, name: str) -> Column:
        table = self._rows_of(name, ["step", "seq", "value", "exact"])
        if table is None:
            return EMPTY
        texts = table["exact"]
        exact: dict[int, str] = {}
        if texts.null_count < len(texts):
            exact = {at: text for at, text in enumerate(texts.to_pylist()) if text is not None}
        return Column(arrow.numbers(table["step"]), arrow.numbers(table["seq"]), arrow.numbers(table["value"]), exact)

    def places(self, name: str) -> tuple[Steps, Floats]:
        """The steps and values of a series by step: less to read than its column, and all that a curve needs."""
        table = self._rows_of(name, ["step", "value"], use_threads=False)  # whoever draws many reads them side by side
        return (
            (EMPTY.steps, EMPTY.values)
            if table is None
            else (arrow.numbers(table["step"]), arrow.numbers(table["value"]))
        )

    def _rows_of(self, name: str, columns: list[str], *, use_threads: bool = True) -> pa.Table | None:
        """The points of a series; names that share a row group stand in it in the order they have in `about`."""
        where = self.about.names.get(name)
        if where is None:
            return None
        groups = list(range(where.first_group, where.last_group + 1))
        with self._reading():
            table = self._points.read_row_groups(groups, columns=columns, use_threads=use_threads)
            rows = table.slice(self._starts[name], where.count)
            if len(rows) < where.count:
                raise ValueError(f"{name!r} has {len(rows)} of {where.count} points")
        # A copy, lest one of many that share keep the memory of all.
        return rows if len(rows) == len(table) else pa.concat_tables([rows, rows.slice(0, 0)]).combine_chunks()

    @cached_property
    def _starts(self) -> dict[str, int]:
        """The row at which each series begins within its first row group."""
        starts: dict[str, int] = {}
        group = end = -1
        for name, where in self.about.names.items():
            start = end if where.first_group == group else 0
            starts[name], group, end = start, where.first_group, start + where.count
        return starts

    def last(self) -> Iterator[tuple[str, int, Any]]:
        """(name, seq, value) of the last point of every series."""
        for name, where in self.about.names.items():
            value = where.last
            if isinstance(value, str):
                value = records.NONFINITE[value] if value in records.NONFINITE else from_text(value)
            yield name, where.last_seq, value

    @cached_property
    def clock(self) -> tuple[Ints, Ints]:
        """(seqs, times) of all records, by seq."""
        with self._reading():
            table = self._open("clock").read()
        return arrow.numbers(table["seq"]), arrow.numbers(table["time"])

    def rows(self, *kinds: str) -> list[AnyRecord]:
        """The records that are no steps and no spans: all of them, or those of some kinds."""
        found: list[AnyRecord] = []
        with self._reading():
            file = self._open("rows")
            for group in range(file.num_row_groups):
                if not _may_hold(file.metadata.row_group(group), kinds):
                    continue
                table = file.read_row_group(group, columns=["kind", "record"])
                if kinds:
                    table = table.filter(reduce(pc.or_, (pc.equal(table["kind"], arrow.text(kind)) for kind in kinds)))
                found += [records.decode(line.encode()) for line in table["record"].to_pylist()]
        return sorted(found, key=lambda record: record.seq)

    def table(self, name: str) -> Iterator[AnyRecord]:
        """The records of a table, a few at a time."""
        with self._reading():
            batches = self._open("rows").iter_batches(PAGE, columns=["kind", "name", "record"])
            first = next(batches, None)
        return self._table(name, first, batches)

    def _table(self, name: str, batch: Any, batches: Iterator[Any]) -> Iterator[AnyRecord]:
        while batch is not None:
            mine = pc.and_(pc.equal(batch["kind"], "table"), pc.equal(batch["name"], name))
            for line in batch.filter(mine)["record"].to_pylist():
                yield records.decode(line.encode())
            with self._reading():
                batch = next(batches, None)

    def span_tables(self) -> list[pa.Table]:
        with self._reading():
            return [self._open("spans").read()]

    def spans(self) -> list[Span]:
        with self._reading():
            rows = self._open("spans").read().to_pylist()
            return [
                Span(
                    rank=self._segment.rank,
                    attempt=self._segment.attempt,
                    tags=msgspec.json.decode(row.pop("tags") or "{}"),
                    kind=row.pop("kind", None) or "",  # older parts have neither
                    error=row.pop("error", None) or "",
                    **row,
                )
                for row in rows
            ]

    @cached_property
    def has_spans(self) -> bool:
        with self._reading():
            return int(self._open("spans").metadata.num_rows) > 0

    def verify(self) -> None:
        """Read every byte of it; raises `Broken` if one is not as it was written."""
        with self._reading():
            for kind in KINDS:
                self._open(kind).read()

    def _open(self, kind: str) -> pq.ParquetFile:
        path = self._stem.with_name(f"{self._stem.name}.{kind}.parquet")
        with path.open("rb") as file:
            end = _footer(file)
            file.seek(end - _SEAL)
            seal, footer = file.read(_SEAL), file.read()
        if crc32(footer).to_bytes(_SEAL, "little") != seal:
            raise OSError(f"the footer of {path.name} does not match its CRC")
        return pq.ParquetFile(path, page_checksum_verification=True)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # damaged Parquet can raise nearly everything
            raise Broken(f"{self._stem.name}: {error}") from error


def _may_hold(group: pq.RowGroupMetaData, kinds: Sequence[str]) -> bool:
    """Whether a row group may have records of a kind, by what it says of its least and greatest."""
    if not kinds:
        return True
    said = group.column(_ROWS.get_field_index("kind")).statistics
    return said is None or not said.has_min_max or any(said.min <= kind <= said.max for kind in kinds)


def load(run: Path, segment: Segment) -> Part | None:
    """The part of a segment, if there is a whole one."""
    if not layout.has_part(run, segment):
        return None
    try:
        return Part(run, segment)
    except Broken:
        return None


def compact(run: Path, segment: Segment) -> bool:
    """Make the part of a segment; false when it was there already."""
    if layout.has_part(run, segment):
        return False
    scanner = lines.Scanner(run / layout.JOURNAL / segment.filename)
    columns = Columns()
    rows: list[AnyRecord] = []
    spans: list[Span] = []
    count, first, last, last_seq = 0, 1 << 62, 0, -1
    for record in scanner.read():
        columns.feed(record)
        count += 1
        first, last, last_seq = min(first, record.time), max(last, record.time), max(last_seq, record.seq)
        if isinstance(record, records.Spans):
            spans += expand(record, segment.rank, segment.attempt)
        elif not isinstance(record, records.Step):
            rows.append(record)
    about = About(
        segment.stem,
        scanner.offset,
        count,
        first if count else 0,
        last,
        last_seq,
        columns.first_step,
        columns.first_seq,
        columns.last_step,
        columns.begin_step,
        [(damage.start, damage.end, damage.reason) for damage in scanner.damage],
    )
    printed = [record for record in rows if isinstance(record, records.Console)]
    rows = [record for record in rows if not isinstance(record, records.Console)]
    groups = {
        "clock": [_clock(columns)],
        "spans": [spans_table(spans)],
        "rows": [_rows(rows), *([_rows(printed)] if printed else [])],  # much text, which few ask for
        "points": list(_points(columns, about)),
    }
    folder = run / layout.PARTS
    make_dir(folder)
    for kind in KINDS:
        _publish(folder / f"{segment.stem}.{kind}.parquet", groups[kind], about)
    return True


def prune(run: Path, segment: Segment) -> bool:
    """Turn a compacted segment into `.jsonl.zst`; the part must cover all of it."""
    path = run / layout.JOURNAL / segment.filename
    part = load(run, segment)
    if part is None or not path.exists() or part.about.covers != path.stat().st_size:
        return False
    aside = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    with path.open("rb") as source, pa.CompressedOutputStream(str(aside), "zstd") as target:
        while data := source.read(1 << 20):
            target.write(data)
    with pa.input_stream(str(aside), compression="zstd") as again, path.open("rb") as source:
        while data := source.read(1 << 20):
            if again.read(len(data)) != data:
                raise OSError(f"{aside} did not read back as {path}")
    aside.chmod(0o600)
    aside.replace(path.with_name(f"{path.name}.zst"))
    path.unlink()
    return True


def _points(columns: Columns, about: About) -> Iterator[pa.Table]:
    """Row groups of points by name, then step; fills in `about.names`."""
    waiting: list[tuple[str, Column]] = []
    size = group = 0
    whole = all(columns.column(name).steps.dtype == np.int64 for name in columns.names())
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
                "exact": pa.concat_arrays([_exact(column) for _, column in waiting]),
            }
        )

    for name in sorted(columns.names()):
        column = _by_step(columns.column(name))
        count = len(column.seqs)
        if waiting and (count >= OWN_GROUP or size + count > SHARED):
            yield emit()
            waiting, size, group = [], 0, group + 1
        last = int(np.argmax(column.seqs))
        text = column.exact.get(last)
        value: Any = _plain(float(column.values[last])) if text is None else text
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
        yield emit() if waiting else _no_points()


def _by_step(column: Column) -> Column:
    return take(column, np.lexsort((column.seqs, column.steps)))


def _exact(column: Column) -> pa.Array:
    if not column.exact:
        return pa.nulls(len(column.seqs), pa.string())
    return pa.array([column.exact.get(at) for at in range(len(column.seqs))], pa.string())


def _no_points() -> pa.Table:
    return pa.schema(
        [
            ("name", pa.string()),
            ("step", pa.int64()),
            ("seq", pa.int64()),
            ("value", pa.float64()),
            ("exact", pa.string()),
        ]
    ).empty_table()


def _plain(value: float) -> float | str:
    return value if value - value == 0 else str(value)


def _clock(columns: Columns) -> pa.Table:
    seqs, times = columns.clock()
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
        _ROWS,
    )


def _step(record: AnyRecord | Span) -> float | None:
    step = getattr(record, "step", None)
    try:
        return None if step is None else float(step)
    except OverflowError:
        return None


def spans_table(spans: Sequence[Span], *, whose: bool = False) -> pa.Table:
    """Spans in columns, by their start; with the rank and the attempt they are of, where asked."""
    ordered = sorted(spans, key=lambda span: span.start)
    columns: dict[str, list[Any]] = {name: [getattr(span, name) for span in ordered] for name in _SPANS.names}
    columns["step"] = [_step(span) for span in ordered]
    columns["tags"] = [msgspec.json.encode(span.tags).decode() if span.tags else None for span in ordered]
    columns["kind"] = [span.kind or None for span in ordered]
    columns["error"] = [span.error or None for span in ordered]
    table = pa.table(columns, _SPANS)
    if whose:
        for name in ("rank", "attempt"):
            table = table.append_column(name, pa.array([getattr(span, name) for span in ordered], pa.int64()))
    return table


def _publish(path: Path, groups: Iterable[pa.Table], about: About) -> None:
    """Write a file aside and link it into place; one that is there already stays."""
    if path.name.split(".")[1] != "points":
        about = msgspec.structs.replace(about, names={})
    groups = list(groups)
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
            _seal(file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(aside, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links; of two compactions at once the second wins there
            if not path.exists():
                aside.rename(path)
    finally:
        aside.unlink(missing_ok=True)


def _seal(file: BinaryIO) -> None:
    """Put the CRC-32 of a footer before it; Parquet finds a footer from the end, and its pages by their places."""
    end = _footer(file)
    file.seek(end)
    footer = file.read()
    file.seek(end)
    file.write(crc32(footer).to_bytes(_SEAL, "little") + footer)


def _footer(file: BinaryIO) -> int:
    """Where the footer of a Parquet file begins."""
    end = file.seek(-8, os.SEEK_END)
    length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
    if magic != _MAGIC or end - length < _SEAL:
        raise OSError("no Parquet file")
    return end - length


def _type(schema: pa.Schema, name: str) -> pa.DataType:
    return schema.field(name).type if name in schema.names else pa.null()
