"""The points and spans of a tail, in columns. Needs numpy."""

from __future__ import annotations

from chiplog.core.records import AnyRecord, SpansRecord
from chiplog.store.journal.row_decoder import RowBatch
from chiplog.store.points.columns import Columns
from chiplog.store.spans.columns import Batch, from_record


class TailColumns:
    """Collects the points and spans of records."""

    def __init__(self) -> None:
        self.points = Columns()
        self.spans: list[Batch] = []

    def add(self, record: AnyRecord) -> None:
        self.points.feed(record)
        if isinstance(record, SpansRecord) and (batch := from_record(record)) is not None:
            self.spans.append(batch)

    def add_rows(self, batch: RowBatch) -> None:
        self.points.feed_rows(batch)
