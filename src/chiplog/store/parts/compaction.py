"""Compaction: a segment of a journal becomes a part, and a compacted segment `.jsonl.zst`.

Parts are ordinary Parquet, so every data tool can read a run. Only `prune` ever deletes anything: a segment that it has
compressed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from chiplog.core import records
from chiplog.core.records import AnyRecord
from chiplog.store import layout
from chiplog.store.journal import lines
from chiplog.store.layout import Segment
from chiplog.store.parts.format import About
from chiplog.store.parts.part import load
from chiplog.store.parts.writer import write
from chiplog.store.points.columns import Columns
from chiplog.store.spans.columns import SpanColumns, from_record


def compact(run: Path, segment: Segment) -> bool:
    """Make the part of a segment; false if there is one already."""
    if layout.has_part(run, segment):
        return False
    scanner = lines.Scanner(run / layout.JOURNAL / segment.filename)
    columns, spans = Columns(), SpanColumns()
    rows: list[AnyRecord] = []
    count, first, last, last_seq = 0, 1 << 62, 0, -1
    for record in scanner.read():
        columns.feed(record)
        count += 1
        first, last, last_seq = min(first, record.time), max(last, record.time), max(last_seq, record.seq)
        if isinstance(record, records.SpansRecord):
            if (batch := from_record(record)) is not None:
                spans.append(batch, segment.rank, segment.attempt)
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
    write(run, segment, about, points=columns, rows=rows, spans=spans)
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
