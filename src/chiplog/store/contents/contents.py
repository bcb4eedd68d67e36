"""What a run holds besides points and spans: settings, alerts, evals, tables, matrices, files, printed lines.

One object for every view of a run, from `show` to the page. `refresh` reads what is new.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from chiplog.core import messages, records
from chiplog.core.records import AnyRecord, HistogramRecord, Number, Plain
from chiplog.store import manifest
from chiplog.store.contents import table_samples
from chiplog.store.contents.journal_tail import JournalTail, Range
from chiplog.store.contents.ragged import is_ragged
from chiplog.store.contents.run_segments import RunSegments
from chiplog.store.contents.segment import SegmentContents
from chiplog.store.contents.table_samples import Sample, Samples, samples_of
from chiplog.store.journal.lines import Damage, number
from chiplog.store.journal.tail import stream_key
from chiplog.store.layout import Segment
from chiplog.store.parts.errors import BrokenPart
from chiplog.store.printed_lines import Printed

if TYPE_CHECKING:
    from chiplog.store.parts.part import Part

LOGGED = ("event", "eval", "alert", "table", "text", "matrix", "histogram", "file")  # everything except printed lines
COLUMNS = 100  # of a table that are named
NOTES = ("env_info", "timings")  # events that describe the run as a whole; they have no curve


class Bounds(NamedTuple):
    """How many of the newest items of each kind to keep; None for all."""

    alerts: int | None = None
    events: int | None = None
    rows: int | None = None  # per table
    sample_bytes: int | None = None  # of rows and texts in memory; the others are read when they are needed
    lines: int | None = None  # printed
    frames: int | None = None  # per matrix; beyond that, every other one is dropped


# For a view that stays open during a run.
LIVE = Bounds(alerts=2000, events=2000, rows=20_000, sample_bytes=4 << 20, lines=5000, frames=500)


class MatrixFrame(NamedTuple):
    """A matrix at a step; rows may differ in length."""

    step: Number | None
    time: int
    seq: int
    rows: list[array[float]]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), max(map(len, self.rows), default=0)


class Contents:
    """The contents of one run, for all kinds of records or some. Hold `lock` while reading from several threads."""

    def __init__(
        self, path: Path, *kinds: str, bounds: Bounds | None = None, segments: RunSegments | None = None
    ) -> None:
        about = manifest.load(path)
        bounds = bounds or Bounds()
        self.path = path
        self._segments = segments or RunSegments(path, points=False, kinds=kinds)
        self.lock = self._segments.lock
        self.config: dict[str, Plain] = dict(about.config)
        self.environment: dict[str, Plain] = dict(about.environment)
        self.summary: dict[str, Plain] = {}  # values that the run set explicitly
        self.notes: dict[str, dict[str, Plain]] = {name: {} for name in NOTES}
        self.events: deque[records.Event] = deque(maxlen=bounds.events)
        self.evals: list[records.Eval] = []
        self.alerts: deque[records.Alert] = deque(maxlen=bounds.alerts)
        self.alert_count = 0
        self._tables, self._texts = (Samples(bounds.rows, bounds.sample_bytes) for _ in range(2))
        self.tables, self.texts = self._tables.by_name, self._texts.by_name
        self.sample_counts: dict[str, int] = {}  # of tables and texts
        self.sample_columns: dict[str, dict[str, None]] = {}
        self.matrices: dict[str, list[MatrixFrame]] = {}
        self.histograms: dict[str, Distribution] = {}  # the newest of each name
        self.files: dict[str, records.File] = {}
        self.console = Printed(bounds.lines)
        self.streams: dict[str, Stream] = {}
        self.has_spans = False
        self._kinds, self._bounds = kinds, bounds
        self._read: dict[Segment, tuple[JournalTail, int]] = {}  # how many records of which tail
        self._main_rank = 0

    def refresh(self) -> Self:
        """Read what is new."""
        ordered = self._segments()
        self._main_rank = min((one.segment.rank for one in ordered), default=0)
        for one in ordered:
            tail = one.refresh()
            before, count = self._read.get(one.segment, (None, 0))
            if before is not tail:
                seen = {record.seq for record in before.records[:count]} if before is not None else set()
                if before is None:
                    self.streams.setdefault(one.stream, Stream()).segments.append(one)
                in_part: set[int] = set()
                for record in self._in_part(one):
                    in_part.add(record.seq)
                    if record.seq not in seen:
                        self._add(record, one.segment)
                if one.part is None:
                    seen |= in_part  # its part broke off, and the tail starts over
                tail, count = one.tail, 0
            else:
                seen = set()
            self.has_spans = self.has_spans or tail.has_spans
            for record in sorted(tail.records[count:], key=lambda record: record.seq):
                if record.seq not in seen:
                    self._add(record, one.segment)
            self._read[one.segment] = tail, len(tail.records)
        return self

    @property
    def damage(self) -> list[Damage]:
        """Bytes that cannot be read, by segment and range."""
        return [damage for stream in self.streams.values() for one in stream.segments for damage in one.damage]

    def torn(self, live: Collection[str] = ()) -> list[Damage]:
        """Unfinished lines at the ends of segments; a `live` stream may still be writing its own."""
        newest = {stream_key(segment): segment for segment in sorted(self._read)}
        ends = [(tail.scanner.torn(), segment) for segment, (tail, _) in self._read.items()]
        return [
            torn
            for torn, segment in ends
            if torn is not None and not ((key := stream_key(segment)) in live and segment == newest[key])
        ]

    @property
    def missing(self) -> dict[str, list[Range]]:
        """Records that were logged but lost: ranges of `seq`, by rank and attempt."""
        holes = {key: stream.missing for key, stream in self.streams.items()}
        return {key: ranges for key, ranges in holes.items() if ranges}

    def stream(self, rank: int, attempt: int) -> Stream:
        """What one rank wrote in one attempt."""
        return self.streams.get(stream_key(Segment(rank, attempt, 0))) or Stream()

    def samples(self) -> Iterator[tuple[str, deque[Sample]]]:
        """Tables and texts by name."""
        return chain(self.tables.items(), self.texts.items())

    def _in_part(self, one: SegmentContents) -> Iterator[AnyRecord]:
        """The records in the part of a segment, a few at a time; a part that turns out to be broken is dropped."""
        if one.part is None:
            return
        try:
            self.has_spans = self.has_spans or one.part.has_spans
            yield from one.part.stream(*self._kinds)
        except BrokenPart:
            one.drop_part()

    def load(self, samples: Sequence[Sample]) -> list[Sample]:
        """Samples with their cells, some of which may be in the store."""
        return table_samples.load(self._segments, samples)

    def select(self, samples: Sequence[Sample], wanted: Callable[[Sample], bool]) -> list[Sample]:
        """The samples that a function wants; it sees all cells, few at a time."""
        return table_samples.select(self._segments, samples, wanted)

    def _add(self, record: AnyRecord, segment: Segment) -> None:
        if self._kinds and records.kind_of(record) not in self._kinds:
            return
        if isinstance(record, records.Event):
            self._add_event(record, main=segment.rank == self._main_rank)
        elif isinstance(record, records.Alert):
            self.alerts.append(record)
            self.alert_count += 1
        elif isinstance(record, records.Eval):
            self.evals.append(record)
        elif isinstance(record, records.Table):
            self._add_samples(self._tables, record, segment)
        elif isinstance(record, records.TextRecord):
            self._add_samples(self._texts, record, segment)
        elif isinstance(record, records.MatrixRecord):
            self._add_matrix(record)
        elif isinstance(record, records.HistogramRecord):
            self._add_histogram(record)
        elif isinstance(record, records.File):
            self.files[record.path] = record
        elif isinstance(record, records.ConsoleRecord):
            self.console.feed(record, segment.rank, segment.attempt)

    def _add_event(self, event: records.Event, *, main: bool) -> None:
        self.events.append(event)
        if event.name in NOTES:
            self.notes[event.name].update(event.data)
        elif not main:
            return  # only the main rank describes the run
        elif event.name == "config":
            self.config.update(event.data)
        elif event.name == "environment":
            self.environment = event.data
        elif event.name == "summary":
            self.summary.update(event.data)

    def _add_samples(self, samples: Samples, record: records.Table | records.TextRecord, segment: Segment) -> None:
        columns = self.sample_columns.setdefault(record.name, {})
        for one in samples_of(record, segment):
            samples.add(record.name, one)
            self.sample_counts[record.name] = self.sample_counts.get(record.name, 0) + 1
            if len(columns) < COLUMNS:
                columns.update(dict.fromkeys(one.cells))

    def _add_histogram(self, histogram: records.HistogramRecord) -> None:
        before = self.histograms.get(histogram.name)
        newest = distribution(histogram, logged=before.logged + 1 if before else 1)
        if newest is not None:
            self.histograms[histogram.name] = newest

    def _add_matrix(self, matrix: records.MatrixRecord) -> None:
        try:
            rows = [array("d", map(number, row)) for row in matrix.values]
        except TypeError:
            return
        columns, values = max(map(len, rows), default=0), sum(map(len, rows))
        if is_ragged(len(rows) * columns, len(rows) + values):
            size = f"{len(rows):,} rows of up to {columns:,} numbers, but only {values:,} numbers"
            messages.once(f"ragged {matrix.name[:60]}", f"matrix {matrix.name[:60]!r} is not shown: it has {size}")
            return
        frames = self.matrices.setdefault(matrix.name, [])
        frames.append(MatrixFrame(matrix.step, matrix.time, matrix.seq, rows))
        if self._bounds.frames is not None and len(frames) > self._bounds.frames:
            del frames[1:-1:2]


class Distribution(NamedTuple):
    """A histogram, the total of its counts, and the mean and range of its values or, if unknown, those of its bins."""

    name: str
    step: Number | None
    logged: int  # how often, up to this one
    edges: list[float]
    counts: list[Number]
    total: Number
    mean: float | None
    min: float | None
    max: float | None


def distribution(record: HistogramRecord, logged: int = 1) -> Distribution | None:
    """The numbers of a histogram; None if its counts and edges do not fit together or are not finite."""
    try:
        edges = [number(edge) for edge in record.edges]
        counts = record.counts
        total = sum(counts)
        if len(edges) != len(counts) + 1 or not all(map(isfinite, (*edges, *counts, total))):
            return None
    except (TypeError, OverflowError):  # texts, and integers beyond all doubles
        return None
    filled = [at for at, count in enumerate(counts) if count > 0] if total > 0 else []
    centres = [low / 2 + high / 2 for low, high in pairwise(edges)]
    mean = sum(count / total * centre for count, centre in zip(counts, centres, strict=True)) if filled else None
    low, high = (edges[filled[0]], edges[filled[-1] + 1]) if filled else (None, None)
    of_values = record.min, record.max, record.mean
    if all(value is not None and isfinite(value) for value in of_values):
        low, high, mean = of_values
    return Distribution(record.name, record.step, logged, edges, counts, total, mean, low, high)


class Stream:
    """The segments of one stream, by number."""

    def __init__(self) -> None:
        self.segments: list[SegmentContents] = []

    @property
    def records(self) -> int:
        """How many there are."""
        return sum(one.tail.count + (one.part.about.records if one.part is not None else 0) for one in self.segments)

    @property
    def first(self) -> Number | None:
        """The step of the first row."""
        for one in self.segments:
            if one.part is not None and one.part.about.begin_step is not None:
                return one.part.about.begin_step
            if one.tail.first is not None:
                return one.tail.first[1]
        return None

    @property
    def last(self) -> Number | None:
        """The step of the newest row."""
        for one in reversed(self.segments):
            if one.tail.last is not None:
                return one.tail.last[1]
            for step in one.ask(_last_step):
                if step is not None:
                    return step
        return None

    @property
    def step_range(self) -> tuple[Number, Number] | None:
        """The lowest and the highest step, whatever their order was; None without rows."""
        ranges = [steps for one in self.segments for steps in one.ask(_step_range)]
        ranges += [one.tail.step_range for one in self.segments]
        step_ranges = [steps for steps in ranges if steps is not None]
        return (min(low for low, _ in step_ranges), max(high for _, high in step_ranges)) if step_ranges else None

    @property
    def missing(self) -> list[Range]:
        """The ranges of `seq` that are missing, from 0 to the highest one."""
        holes, expected = [], 0
        for first, last in sorted(span for one in self.segments for span in one.ranges):
            if first > expected:
                holes.append((expected, first - 1))
            expected = max(expected, last + 1)
        return holes


def _step_range(part: Part) -> tuple[Number, Number] | None:
    return part.step_range


def _last_step(part: Part) -> Number | None:
    """The step of the newest point in a part."""
    if not part.about.names:
        return None
    if part.about.last_step is not None:
        return part.about.last_step
    name, _ = max(part.about.names.items(), key=lambda item: item[1].last_seq)
    column = part.column(name)
    step: Number = column.steps[column.seqs.argmax()].item()
    return step
