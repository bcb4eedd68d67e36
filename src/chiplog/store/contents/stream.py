"""One stream of a run (one rank in one attempt): how many records, which steps, and what is missing."""

from __future__ import annotations

from bisect import insort

from chiplog.core.records import AnyRecord, Eval, Number, Step
from chiplog.store.contents.segment import SegmentContents
from chiplog.store.journal.lines import Scanner
from chiplog.store.parts.errors import BrokenPart

Range = tuple[int, int]  # first and last


class Stream:
    """Counts the segments that have parts, and the records of the tails."""

    def __init__(self) -> None:
        self.records = 0
        self.first: Number | None = None  # step, as logged
        self._first_seq: int | None = None
        self._last: tuple[int, Number] | None = None  # seq and step of the newest row in a tail
        self._compacted: list[SegmentContents] = []
        self._ranges: list[Range] = []

    def add_part(self, segment: SegmentContents) -> None:
        """Count the records that a segment's part holds."""
        assert segment.part is not None
        about = segment.part.about
        self._compacted.append(segment)
        self.records += about.records
        if about.begin_step is not None and self._first_seq is None:
            self.first, self._first_seq = about.begin_step, -1

    def add(self, record: AnyRecord) -> None:
        """Count one record of a tail."""
        self.records += 1
        seq = record.seq
        if self._ranges and self._ranges[-1][1] + 1 == seq:
            self._ranges[-1] = self._ranges[-1][0], seq
        else:
            insort(self._ranges, (seq, seq))
        if isinstance(record, (Step, Eval)):
            self._last = seq, record.step
            if self._first_seq is None or seq < self._first_seq:
                self.first, self._first_seq = record.step, seq

    @property
    def last(self) -> Number | None:
        """The step of the newest row."""
        if self._last is not None:
            return self._last[1]
        return next((step for one in reversed(self._compacted) if (step := _last_step(one)) is not None), None)

    @property
    def missing(self) -> list[Range]:
        """The ranges of `seq` that are missing, from 0 to the highest one."""
        ranges = list(self._ranges)
        for segment in self._compacted:
            ranges += _ranges(segment)
        holes, expected = [], 0
        for first, last in sorted(ranges):
            if first > expected:
                holes.append((expected, first - 1))
            expected = max(expected, last + 1)
        return holes


def _ranges(segment: SegmentContents) -> list[Range]:
    """The `seq` numbers in a part, as ranges."""
    assert segment.part is not None
    try:
        seqs = segment.part.clock[0]
    except BrokenPart:  # read from the segment instead
        return [(record.seq, record.seq) for record in Scanner(segment.path).read()]
    if not len(seqs):
        return []
    breaks = (seqs[1:] > seqs[:-1] + 1).nonzero()[0]
    firsts, lasts = [seqs[0], *seqs[breaks + 1]], [*seqs[breaks], seqs[-1]]
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]


def _last_step(segment: SegmentContents) -> Number | None:
    """The step of the newest point in a part."""
    part = segment.part
    if part is None or not part.about.names:
        return None
    if part.about.last_step is not None:
        return part.about.last_step
    name, _ = max(part.about.names.items(), key=lambda item: item[1].last_seq)
    try:
        column = part.column(name)
    except BrokenPart:
        return None
    step: Number = column.steps[column.seqs.argmax()].item()
    return step
