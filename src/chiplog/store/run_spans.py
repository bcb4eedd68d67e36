"""Loads the spans of a run from its parts and tails."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from chiplog.core import records
from chiplog.store.contents.segment import segments
from chiplog.store.spans.columns import SpanColumns, from_record
from chiplog.store.spans.spans import Spans


def load(run: Path) -> Spans:
    """All finished spans of a run, by their start."""
    columns = SpanColumns()
    for one in segments(run):
        batches, scanner = one.query(lambda part: part.spans())
        tail = (from_record(record) for record in scanner.read() if isinstance(record, records.SpansRecord))
        for batch in chain(batches, tail):
            if batch is not None:
                columns.append(batch, one.segment.rank, one.segment.attempt)
    return Spans(columns)
