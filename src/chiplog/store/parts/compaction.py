"""Compaction: a segment of a journal becomes a part, and a compacted segment `.jsonl.zst`.

Parts are ordinary Parquet, so every data tool can read a run. Only `prune` ever deletes anything: a segment that it has
compressed.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

import pyarrow as pa

from chiplog.core.files import writing
from chiplog.core.operating_system import sync
from chiplog.core.paths import sync_dir
from chiplog.store import layout
from chiplog.store.contents.journal_tail import JournalTail
from chiplog.store.contents.tail_columns import TailColumns
from chiplog.store.journal import lines
from chiplog.store.layout import Segment
from chiplog.store.parts.format import PartInfo
from chiplog.store.parts.part import load
from chiplog.store.parts.writer import write
from chiplog.store.spans.columns import SpanColumns


def compact(run: Path, segment: Segment) -> bool:
    """Make the part of a segment; false if there is one already."""
    if layout.has_part(run, segment):
        return False
    write_part(run / layout.JOURNAL / segment.filename, segment, run / layout.PARTS)
    return True


def write_part(journal: Path, segment: Segment, folder: Path) -> None:
    """Write the part of a segment into a folder."""
    collected = TailColumns()
    tail = JournalTail(lines.Scanner(journal), collected=collected)
    tail.refresh()
    spans = SpanColumns()
    for batch in collected.spans:
        spans.append(batch, segment.rank, segment.attempt)
    about = PartInfo(
        segment.stem,
        tail.scanner.offset,
        tail.count,
        tail.first_time if tail.count else 0,
        tail.last_time,
        max((last for _, last in tail.ranges), default=-1),
        collected.points.first_step,
        collected.points.first_seq,
        collected.points.last_step,
        collected.points.begin_step,
        [(damage.start, damage.end, damage.reason) for damage in tail.scanner.damage],
    )
    write(folder, segment, about, points=collected.points, rows=tail.records, spans=spans)


def prune(run: Path, segment: Segment) -> bool:
    """Turn a compacted segment into `.jsonl.zst`; the part must cover all of it.

    The segment is removed last, when its compressed copy is on disk under its name and has been read back.
    """
    path = run / layout.JOURNAL / segment.filename
    part = load(run, segment)
    try:
        size = lines.size_of(path)
    except OSError:
        return False  # pruned already, or not a file
    if part is None or part.about.covers != size or size > lines.LARGEST_PACKED:
        return False
    aside = writing.new_beside(path, 0o600)
    try:
        with lines.open_plain(path) as source:
            _compress(source, aside)
            _verify(source, aside)
        writing.rename(aside, path.with_name(f"{path.name}.zst"))
    finally:
        writing.remove(aside)
    sync_dir(path.parent)
    writing.remove(path)
    return True


def _compress(source: FileIO, aside: Path) -> None:
    fd = writing.open_update(aside, 0o600)
    try:
        with pa.CompressedOutputStream(pa.PythonFile(os.fdopen(os.dup(fd), "wb"), "w"), "zstd") as target:
            while data := source.read(1 << 20):
                target.write(data)
        sync(fd)
        if hasattr(os, "posix_fadvise"):  # so that what is read back comes from the disk
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _verify(source: FileIO, aside: Path) -> None:
    source.seek(0)
    with pa.input_stream(str(aside), compression="zstd") as again:
        while data := source.read(1 << 20):
            if again.read(len(data)) != data:
                raise OSError(f"{aside} does not match the journal")
        if again.read(1):
            raise OSError(f"{aside} has records that the journal does not")
