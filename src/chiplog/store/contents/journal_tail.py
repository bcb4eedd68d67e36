"""What a segment holds beyond its part, decoded once for all readers of a run."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection
from operator import attrgetter
from typing import TYPE_CHECKING

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number
from chiplog.store.journal.lines import Scanner
from chiplog.store.journal.row_decoder import RowBatch, RowDecoder

if TYPE_CHECKING:
    from chiplog.store.contents.tail_columns import TailColumns

Range = tuple[int, int]  # first and last

_by_seq = attrgetter("seq")


class JournalTail:
    """The records of the lines that a scanner reads; `refresh` decodes what is new.

    Points and spans are kept if `collected` collects them, and only counted otherwise; of the other kinds, some or all.
    """

    def __init__(self, scanner: Scanner, *, collected: TailColumns | None = None, kinds: Collection[str] = ()) -> None:
        self.scanner = scanner
        self.records: list[AnyRecord] = []  # neither steps nor spans, in order of arrival
        self.count = 0
        self.first: tuple[int, Number] | None = None  # seq and step of the row logged first
        self.last: tuple[int, Number] | None = None
        self.step_range: tuple[Number, Number] | None = None  # lowest and highest
        self.first_time, self.last_time = 1 << 62, 0
        self.has_spans = False
        self.ranges: list[Range] = []  # of `seq`
        self.collected = collected
        self._kinds = kinds
        self._decoder = RowDecoder()

    def refresh(self) -> None:
        """Decode what is new."""
        for others in self.scanner.read_chunks(self._decoder.decode):
            batches = list(self._decoder.batches())
            self._count(others, batches)
            for record in others:
                self._add(record)
            for batch in batches:
                self._add_rows(batch)

    def _count(self, others: list[AnyRecord], batches: list[RowBatch]) -> None:
        seqs = sorted([record.seq for record in others] + [row.seq for batch in batches for row in batch.rows])
        times = [record.time for record in others] + [row.time for batch in batches for row in batch.rows]
        if not seqs:
            return
        self.count += len(seqs)
        self.first_time, self.last_time = min(self.first_time, *times), max(self.last_time, *times)
        runs = [(seqs[0], seqs[-1])] if seqs[-1] - seqs[0] == len(seqs) - 1 else [(seq, seq) for seq in seqs]
        for start, end in runs:
            if self.ranges and self.ranges[-1][1] + 1 == start:
                self.ranges[-1] = self.ranges[-1][0], end
            else:
                insort(self.ranges, (start, end))

    def _add(self, record: AnyRecord) -> None:
        if isinstance(record, (records.Step, records.Eval)):
            self._note_row(record.seq, record.step)
        if isinstance(record, records.SpansRecord):
            self.has_spans = True
        elif not isinstance(record, records.Step) and (not self._kinds or records.kind_of(record) in self._kinds):
            self.records.append(record)
        if self.collected is not None:
            self.collected.add(record)

    def _add_rows(self, batch: RowBatch) -> None:
        for row in (min(batch.rows, key=_by_seq), max(batch.rows, key=_by_seq)):
            self._note_row(row.seq, row.step)
        for step in (min(row.step for row in batch.rows), max(row.step for row in batch.rows)):
            self._widen(step)
        if self.collected is not None:
            self.collected.add_rows(batch)

    def _widen(self, step: Number) -> None:
        low, high = self.step_range or (step, step)
        self.step_range = min(low, step), max(high, step)

    def _note_row(self, seq: int, step: Number) -> None:
        self._widen(step)
        if self.first is None or seq < self.first[0]:
            self.first = seq, step
        if self.last is None or seq > self.last[0]:
            self.last = seq, step
