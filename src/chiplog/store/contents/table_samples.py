"""Samples: rows of tables and texts, of which the newest are in memory and the others in the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number, Plain
from chiplog.store.contents.run_segments import RunSegments
from chiplog.store.contents.segment import SegmentContents
from chiplog.store.layout import Segment
from chiplog.store.parts.errors import BrokenPart

KINDS = ("table", "text")
STORED: dict[str, Plain] = {}  # the cells of a sample that is not in memory


class SamplePlace(NamedTuple):
    """Where a sample is in the store."""

    segment: Segment
    seq: int
    row: int  # of its record


class Sample(NamedTuple):
    """A row of a table, or a text. If its cells are `STORED`, `Samples.load` reads them."""

    step: Number | None
    time: int
    cells: dict[str, Plain]
    at: SamplePlace

    @property
    def is_loaded(self) -> bool:
        return self.cells is not STORED


class Samples:
    """The samples of one kind by name: the newest `rows` of each, of which about `size` bytes stay in memory."""

    def __init__(self, rows: int | None, size: int | None) -> None:
        self.by_name: dict[str, deque[Sample]] = {}
        self._rows, self._size = rows, size
        self._sizes: dict[str, int] = {}  # of what is in memory
        self._total = 0

    def add(self, name: str, sample: Sample) -> None:
        samples = self.by_name.get(name)
        if samples is None:
            samples = self.by_name[name] = deque(maxlen=self._rows)
        if self._size is not None:
            leaving = samples[0] if len(samples) == self._rows else None
            left = size_of(leaving.cells) if leaving is not None and leaving.is_loaded else 0
            self._resize(name, size_of(sample.cells) - left)
        samples.append(sample)
        if self._size is not None and self._total > self._size:
            self._unload(max(self._sizes, key=self._sizes.__getitem__))

    def _unload(self, name: str) -> None:
        """Drop the older half of what is in memory of a name."""
        kept, half = self._sizes[name], self._sizes[name] // 2
        samples = self.by_name[name]
        for number, sample in enumerate(samples):
            if kept <= half:
                break
            if sample.is_loaded:
                kept -= size_of(sample.cells)
                samples[number] = sample._replace(cells=STORED)
        self._resize(name, kept - self._sizes[name])

    def _resize(self, name: str, change: int) -> None:
        self._sizes[name] = self._sizes.get(name, 0) + change
        self._total += change


def samples_of(record: AnyRecord, segment: Segment) -> Iterator[Sample]:
    """The samples in a record."""
    if isinstance(record, records.Table):
        for number, row in enumerate(record.rows):
            yield Sample(record.step, record.time, row, SamplePlace(segment, record.seq, number))
    elif isinstance(record, records.TextRecord):
        yield Sample(record.step, record.time, {"text": record.text}, SamplePlace(segment, record.seq, 0))


def load(segments: RunSegments, samples: Sequence[Sample]) -> list[Sample]:
    """Samples with their cells; one that can no longer be read is left out."""
    stored = {one.at: one for one in _stored(segments, samples)} if not all(one.is_loaded for one in samples) else {}
    return [one if one.is_loaded else stored[one.at] for one in samples if one.is_loaded or one.at in stored]


def select(segments: RunSegments, samples: Sequence[Sample], wanted: Callable[[Sample], bool]) -> list[Sample]:
    """The samples that a function wants, which sees each with its cells; what is not in memory stays out of it."""
    stored = {one.at for one in _stored(segments, samples) if wanted(one)}
    return [one for one in samples if (wanted(one) if one.is_loaded else one.at in stored)]


def size_of(cells: dict[str, Plain]) -> int:
    """About the memory of a sample."""
    return 200 + sum(_size(value) for value in cells.values())


def _size(value: Plain) -> int:
    if isinstance(value, str):
        return 50 + len(value)
    if isinstance(value, dict):
        return 60 + sum(map(_size, value.values()))
    return 60 + sum(map(_size, value)) if isinstance(value, (list, tuple)) else 30


def _stored(segments: RunSegments, samples: Iterable[Sample]) -> Iterator[Sample]:
    """Those that are not in memory, with their cells, one record at a time."""
    wanted: dict[Segment, dict[int, set[int]]] = {}
    for one in samples:
        if not one.is_loaded:
            wanted.setdefault(one.at.segment, {}).setdefault(one.at.seq, set()).add(one.at.row)
    for segment, rows in wanted.items():
        for record in _records(segments.one(segment), rows):
            yield from (one for one in samples_of(record, segment) if one.at.row in rows[record.seq])


def _records(one: SegmentContents, seqs: Iterable[int]) -> Iterator[AnyRecord]:
    left = set(seqs)
    try:
        for record in one.part.at(left, *KINDS) if one.part is not None else ():
            left.discard(record.seq)
            yield record
    except BrokenPart:
        one.drop_part()
    if left:
        yield from (record for record in one.tail.records if record.seq in left)
