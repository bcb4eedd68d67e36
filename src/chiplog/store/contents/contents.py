"""What a run holds besides points and spans: settings, alerts, evals, tables, matrices, files, printed lines.

One object for every view of a run, from `show` to the page. `refresh` reads what is new.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number, Plain
from chiplog.store.contents.distribution import Distribution, distribution
from chiplog.store.contents.segment import SegmentContents, segments
from chiplog.store.contents.stream import Range, Stream
from chiplog.store.journal.lines import Damage, Scanner, number
from chiplog.store.journal.tail import stream_key
from chiplog.store.layout import Segment
from chiplog.store.printed_lines import Printed
from chiplog.store.runs import manifest

LOGGED = ("event", "eval", "alert", "table", "text", "matrix", "histogram", "file")  # everything except printed lines
NOTES = ("env_info", "timings")  # events that describe the run as a whole; they have no curve


class Bounds(NamedTuple):
    """How many of the newest items of each kind to keep; None for all."""

    alerts: int | None = None
    events: int | None = None
    rows: int | None = None  # per table
    lines: int | None = None  # printed
    frames: int | None = None  # per matrix; beyond that, every other one is dropped


LIVE = Bounds(alerts=2000, events=2000, rows=20_000, lines=5000, frames=500)  # for a view that stays open during a run


class Sample(NamedTuple):
    """A row of a table, or a text."""

    step: Number | None
    time: int
    cells: dict[str, Plain]


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

    def __init__(self, path: Path, *kinds: str, bounds: Bounds | None = None) -> None:
        about = manifest.load(path)
        bounds = bounds or Bounds()
        self.path = path
        self.lock = threading.RLock()
        self.config: dict[str, Plain] = dict(about.config)
        self.environment: dict[str, Plain] = dict(about.environment)
        self.summary: dict[str, Plain] = {}  # values that the run set explicitly
        self.notes: dict[str, dict[str, Plain]] = {name: {} for name in NOTES}
        self.events: deque[records.Event] = deque(maxlen=bounds.events)
        self.evals: list[records.Eval] = []
        self.alerts: deque[records.Alert] = deque(maxlen=bounds.alerts)
        self.alert_count = 0
        self.tables: dict[str, deque[Sample]] = {}
        self.texts: dict[str, deque[Sample]] = {}
        self.sample_counts: dict[str, int] = {}  # of tables and texts
        self.matrices: dict[str, list[MatrixFrame]] = {}
        self.histograms: dict[str, Distribution] = {}  # the newest of each name
        self.files: dict[str, records.File] = {}
        self.console = Printed(bounds.lines)
        self.streams: dict[str, Stream] = {}
        self.has_spans = False
        self._kinds, self._bounds = kinds, bounds
        self._damage: list[Damage] = []  # in parts
        self._tails: dict[Segment, Scanner] = {}
        self._main_rank = 0

    def refresh(self) -> Self:
        """Read what is new."""
        ordered = segments(self.path)
        self._main_rank = min((one.segment.rank for one in ordered), default=0)
        for one in ordered:
            stream = self.streams.setdefault(one.stream, Stream())
            if one.segment not in self._tails:
                self._tails[one.segment] = self._open(one, stream)
            fresh = []
            for record in self._tails[one.segment].read():
                stream.add(record)
                if isinstance(record, records.SpansRecord):
                    self.has_spans = True
                elif not isinstance(record, records.Step):
                    fresh.append(record)
            for record in sorted(fresh, key=lambda record: record.seq):
                self._add(record, one.segment)
        return self

    @property
    def damage(self) -> list[Damage]:
        """Bytes that cannot be read, by segment and range."""
        return self._damage + [one for tail in self._tails.values() for one in tail.damage]

    def torn(self, live: Collection[str] = ()) -> list[Damage]:
        """Unfinished lines at the ends of segments; a `live` stream may still be writing its own."""
        newest = {stream_key(segment): segment for segment in sorted(self._tails)}
        ends = [(tail.torn(), segment) for segment, tail in self._tails.items()]
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

    def _open(self, one: SegmentContents, stream: Stream) -> Scanner:
        """Read the part of a segment; returns a scanner for the tail."""
        answers, scanner = one.query(lambda part: [(part.has_spans, part.rows(*self._kinds))])
        for has_spans, rows in answers:
            assert one.part is not None
            stream.add_part(one)
            self._damage += [Damage(one.segment.filename, *damage) for damage in one.part.about.damage]
            self.has_spans = self.has_spans or has_spans
            for record in rows:
                self._add(record, one.segment)
        return scanner

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
            for row in record.rows:
                self._add_sample(self.tables, record, row)
        elif isinstance(record, records.TextRecord):
            self._add_sample(self.texts, record, {"text": record.text})
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

    def _add_sample(
        self, samples: dict[str, deque[Sample]], record: records.Table | records.TextRecord, cells: dict[str, Plain]
    ) -> None:
        if record.name not in samples:
            samples[record.name] = deque(maxlen=self._bounds.rows)
        samples[record.name].append(Sample(record.step, record.time, cells))
        self.sample_counts[record.name] = self.sample_counts.get(record.name, 0) + 1

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
        frames = self.matrices.setdefault(matrix.name, [])
        frames.append(MatrixFrame(matrix.step, matrix.time, matrix.seq, rows))
        if self._bounds.frames is not None and len(frames) > self._bounds.frames:
            del frames[1:-1:2]
