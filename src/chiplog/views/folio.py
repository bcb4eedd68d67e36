"""What a run holds beside its series: alerts, samples, files, printed lines, settings; read once, then as it grows."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number
from chiplog.store import layout, manifest
from chiplog.store.console import Printed
from chiplog.store.layout import Segment
from chiplog.store.lines import Damage, Scanner
from chiplog.store.reader import answer, part_of

ALERTS = 2000  # kept, the newest
ROWS = 20_000  # of each table
LINES = 5000  # that were printed
FRAMES = 1000  # of each matrix; when there are more, every other one goes


class Sample(NamedTuple):
    """A row of a table, or a text."""

    step: Number | None
    time: int
    cells: dict[str, Any]


class Frame(NamedTuple):
    """A matrix at a step."""

    step: Number | None
    values: NDArray[np.float32]


class Folio:
    """Of one run; `refresh` reads what has come since. Ask it with its lock held."""

    def __init__(self, path: Path) -> None:
        about = manifest.load(path)
        self.path = path
        self.lock = threading.Lock()
        self.config: dict[str, Any] = dict(about.config)
        self.environment: dict[str, Any] = dict(about.environment)
        self.alerts: deque[records.Alert] = deque(maxlen=ALERTS)
        self.alert_count = 0
        self.samples: dict[str, deque[Sample]] = {}
        self.sample_counts: dict[str, int] = {}
        self.matrices: dict[str, list[Frame]] = {}
        self.histograms: dict[str, int] = {}
        self.files: dict[str, records.File] = {}
        self.console = Printed(LINES)
        self.events: deque[records.Event] = deque(maxlen=2000)
        self.first_steps: dict[int, Number] = {}  # by attempt
        self.damage: list[Damage] = []
        self.has_spans = False
        self._scanners: dict[Segment, Scanner] = {}

    def refresh(self) -> None:
        for segment in layout.segments(self.path):
            if segment not in self._scanners:
                part = part_of(self.path, segment)
                known, self._scanners[segment] = answer(self.path, segment, part, lambda part: part.rows())
                if part is not None and known:
                    self.damage += [Damage(segment.filename, *one) for one in part.about.damage]
                    self.has_spans = self.has_spans or part.has_spans
                    if part.about.begin_step is not None:
                        self.first_steps.setdefault(segment.attempt, part.about.begin_step)
                for record in known:
                    self._feed(record, segment)
            scanner = self._scanners[segment]
            for record in scanner.read():
                self._feed(record, segment)

    @property
    def all_damage(self) -> list[Damage]:
        return self.damage + [one for scanner in self._scanners.values() for one in scanner.damage]

    def torn(self) -> list[Damage]:
        """Lines that were never finished."""
        return [torn for scanner in self._scanners.values() if (torn := scanner.torn()) is not None]

    def _feed(self, record: AnyRecord, segment: Segment) -> None:
        if isinstance(record, records.Step):
            self.first_steps.setdefault(segment.attempt, record.step)
        elif isinstance(record, records.Alert):
            self.alerts.append(record)
            self.alert_count += 1
        elif isinstance(record, records.Table):
            for row in record.rows:
                self._sample(record.name, record, row)
        elif isinstance(record, records.Text):
            self._sample(record.name, record, {"text": record.text})
        elif isinstance(record, records.Matrix):
            self._matrix(record)
        elif isinstance(record, records.Histogram):
            self.histograms[record.name] = self.histograms.get(record.name, 0) + 1
        elif isinstance(record, records.File):
            self.files[record.path] = record
        elif isinstance(record, records.Spans):
            self.has_spans = True
        elif isinstance(record, records.Console):
            self.console.feed(record, segment.rank, segment.attempt)
        elif isinstance(record, records.Event):
            self._event(record)

    def _event(self, record: records.Event) -> None:
        if record.name == "config":
            self.config.update(record.data)
        elif record.name == "environment":
            self.environment = record.data
        elif record.name not in ("gpu", "cpu", "system"):
            self.events.append(record)

    def _sample(self, name: str, record: records.Table | records.Text, cells: dict[str, Any]) -> None:
        kept = self.samples.setdefault(name, deque(maxlen=ROWS))
        kept.append(Sample(record.step, record.time, cells))
        self.sample_counts[name] = self.sample_counts.get(name, 0) + 1

    def _matrix(self, record: records.Matrix) -> None:
        try:
            values = np.array(
                [[records.NONFINITE.get(v, np.nan) if isinstance(v, str) else v for v in row] for row in record.values],
                np.float32,
            )
        except (ValueError, OverflowError):
            return
        if values.ndim != 2 or not values.size:
            return
        frames = self.matrices.setdefault(record.name, [])
        frames.append(Frame(record.step, values))
        if len(frames) > FRAMES:
            del frames[1:-1:2]
