"""Everything that `show` and `doctor` tell of a run, gathered in one pass over its parts and journals."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number
from chiplog.store import layout, manifest, state
from chiplog.store.cursors import cursors
from chiplog.store.layout import Segment
from chiplog.store.lines import Damage
from chiplog.store.reader import answer, part_of
from chiplog.store.state import AttemptState, judge
from chiplog.store.tail import stream_key

if TYPE_CHECKING:
    from chiplog.store.parts import About, Part

Range = tuple[int, int]  # first and last


class Stream:
    """What one rank wrote in one attempt."""

    def __init__(self) -> None:
        self.records = 0
        self.first: Number | None = None  # steps, as they were logged
        self.last: Number | None = None
        self._first_seq: int | None = None
        self._ranges: list[Range] = []

    def feed(self, record: AnyRecord) -> None:
        self.records += 1
        self.add_seq(record.seq)
        if isinstance(record, (records.Step, records.Eval)):
            self.last = record.step
            self.begin(record.step, record.seq)

    def begin(self, step: Number | None, seq: int) -> None:
        """A row that may be the first."""
        if step is not None and (self._first_seq is None or seq < self._first_seq):
            self.first, self._first_seq = step, seq

    def add_seq(self, seq: int) -> None:
        if self._ranges and self._ranges[-1][1] + 1 == seq:
            self._ranges[-1] = self._ranges[-1][0], seq
        else:
            self._ranges.append((seq, seq))

    @property
    def missing(self) -> list[Range]:
        """The ranges of `seq` from 0 to the last one that nobody has seen."""
        holes, expected = [], 0
        for first, last in sorted(self._ranges):
            if first > expected:
                holes.append((expected, first - 1))
            expected = max(expected, last + 1)
        return holes


class Survey:
    """A run as it is now."""

    def __init__(self, path: Path) -> None:
        about = manifest.load(path)
        self.path = path
        self.segments = layout.segments(path)
        self.attempts = state.attempts(path)
        self.cursors = cursors(path)
        self.config: dict[str, Any] = dict(about.config)
        self.environment: dict[str, Any] = dict(about.environment)
        self.evals: list[records.Eval] = []
        self.alerts: list[records.Alert] = []
        self.files: list[records.File] = []
        self.streams: dict[str, Stream] = {}
        self.damage: list[Damage] = []
        self.torn: list[Damage] = []
        for segment in self.segments:
            self._read(segment)

    def stream(self, attempt: AttemptState) -> Stream:
        return self.streams.get(stream_key(Segment(attempt.rank, attempt.attempt, 0))) or Stream()

    @property
    def missing(self) -> dict[str, list[Range]]:
        """Ranges of `seq` that were given out and not kept, by rank and attempt."""
        holes = {key: stream.missing for key, stream in self.streams.items()}
        return {key: ranges for key, ranges in holes.items() if ranges}

    @property
    def running(self) -> bool:
        return any(attempt.state == "running" for attempt in self.attempts)

    @property
    def state(self) -> str:
        """What the main rank does."""
        return judge([one for one in self.attempts if one.rank == self.segments[0].rank])

    def _read(self, segment: Segment) -> None:
        stream = self.streams.setdefault(stream_key(segment), Stream())
        known, scanner = answer(self.path, segment, part_of(self.path, segment), _known)
        for one in known:
            self._read_part(one, segment, stream)
        for record in scanner.read():
            stream.feed(record)
            self._keep(record)
        self.damage += scanner.damage
        if (torn := scanner.torn()) is not None and not self._live(segment):
            self.torn.append(torn)

    def _read_part(self, known: _Known, segment: Segment, stream: Stream) -> None:
        about, seqs = known.about, known.seqs
        stream.records += about.records
        stream.begin(about.begin_step, seqs[0] if seqs else 0)
        for seq in seqs:
            stream.add_seq(seq)
        for record in known.rows:
            self._keep(record)
        self.damage += [Damage(segment.filename, *damage) for damage in about.damage]
        stream.last = stream.last if known.last is None else known.last

    def _keep(self, record: AnyRecord) -> None:
        if isinstance(record, records.Eval):
            self.evals.append(record)
        elif isinstance(record, records.Alert):
            self.alerts.append(record)
        elif isinstance(record, records.File):
            self.files.append(record)
        elif isinstance(record, records.Event) and record.name == "config":
            self.config.update(record.data)
        elif isinstance(record, records.Event) and record.name == "environment":
            self.environment = record.data

    def _live(self, segment: Segment) -> bool:
        """Whether a write may be under way at the end of a segment."""
        of_stream = [one for one in self.segments if stream_key(one) == stream_key(segment)]
        return segment == of_stream[-1] and any(
            attempt.state == "running" and (attempt.rank, attempt.attempt) == (segment.rank, segment.attempt)
            for attempt in self.attempts
        )


def two_writers(attempts: Iterable[AttemptState], now: int) -> list[tuple[AttemptState, AttemptState]]:
    """Pairs of attempts of different launches that were written at the same time; one pair for two launches."""
    lives = [(one, one.start.time, _end(one, now)) for one in attempts if one.start is not None]
    found = {
        frozenset((one.launch, other.launch)): (one, other) if one.attempt <= other.attempt else (other, one)
        for at, (one, start, end) in enumerate(lives)
        for other, begun, ended in lives[at + 1 :]
        if one.launch != other.launch and start < ended and begun < end
    }
    return list(found.values())


def _end(attempt: AttemptState, now: int) -> int:
    return now if attempt.state == "running" else attempt.last.time if attempt.last else 0


class _Known(NamedTuple):
    """What a part says, read whole before any of it is taken."""

    about: About
    seqs: list[int]
    rows: list[AnyRecord]
    last: Number | None


def _known(part: Part) -> list[_Known]:
    rows = part.rows("eval", "alert", "file", "event")
    return [_Known(part.about, part.clock[0].tolist(), rows, _last_step(part) if part.about.names else None)]


def _last_step(part: Part) -> Number:
    """The step of the newest point in a part."""
    name, _ = max(part.about.names.items(), key=lambda item: item[1].last_seq)
    column = part.column(name)
    step: Number = column.steps[column.seqs.argmax()].item()
    return step
