"""A stored run, for everything that looks at one: series, records, spans, state and damage. Never writes into a run.

A run is the union of its parts and of what its journals hold beyond them. Every question looks first whether the
journals have grown, so a `Stored` may be kept for as long as the run lives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from chiplog.core import records
from chiplog.core.errors import MissingPackage
from chiplog.core.records import AnyRecord, Event
from chiplog.store import console, layout, manifest, tables
from chiplog.store.console import Line
from chiplog.store.layout import Segment
from chiplog.store.lines import Damage, Scanner
from chiplog.store.spans import Span, Spans, expand
from chiplog.store.state import AttemptState, attempts, state_of
from chiplog.store.tail import Tail, stream_key

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import xarray

    from chiplog.metrics.goodput import Ledger
    from chiplog.metrics.waterfall import Share
    from chiplog.store.columnar import Columns
    from chiplog.store.columns import Floats, Steps
    from chiplog.store.frame import Frame
    from chiplog.store.parts import Part
    from chiplog.store.series import Series


T = TypeVar("T")


class Stored:
    """A run directory, opened for reading; `chiplog.read` makes it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._frame: Frame | None = None
        self._parts: dict[Segment, Part] = {}
        self._manifest = manifest.load(self.path)

    def __repr__(self) -> str:
        return f"<stored run {self.project}/{self.id}>"

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self._manifest.id

    @property
    def project(self) -> str:
        return self._manifest.project

    @property
    def name(self) -> str:
        return self._manifest.name or self.id

    @property
    def tags(self) -> tuple[str, ...]:
        return self._manifest.tags

    @property
    def created(self) -> int:
        """Wall-clock nanoseconds."""
        return self._manifest.created

    @property
    def config(self) -> dict[str, Any]:
        """The config with all later changes."""
        merged = dict(self._manifest.config)
        for event in self._events("config"):
            merged.update(event.data)
        return merged

    @property
    def environment(self) -> dict[str, Any]:
        """Host, versions, command and git, as they were at the newest start."""
        found = dict(self._manifest.environment)
        for event in self._events("environment"):
            found = event.data
        return found

    @property
    def state(self) -> str:
        """running, finished, failed, interrupted, killed or lost."""
        return state_of(self.path)

    @property
    def attempts(self) -> list[AttemptState]:
        """Every start of the run, of every rank, oldest first."""
        return attempts(self.path)

    @property
    def damage(self) -> list[Damage]:
        """What cannot be read, by segment and byte range; a write that is under way is no damage."""
        running = self.state == "running"
        found: list[Damage] = []
        for segment, known, scanner in self._pieces(lambda part: part.about.damage):
            found += [Damage(segment.filename, *damage) for damage in known]
            for _ in scanner.read():
                pass
            found += scanner.damage
            if not running and (torn := scanner.torn()) is not None:
                found.append(torn)
        return found

    @property
    def missing(self) -> dict[str, list[tuple[int, int]]]:
        """Records that were logged and not kept: ranges of `seq`, by rank and attempt."""
        seqs: dict[str, list[int]] = {}
        for segment, known, scanner in self._pieces(lambda part: part.clock[0].tolist()):
            seqs.setdefault(stream_key(segment), []).extend([*known, *(record.seq for record in scanner.read())])
        holes = {key: _holes(sorted(found)) for key, found in seqs.items()}
        return {key: ranges for key, ranges in holes.items() if ranges}

    # -- what it says ----------------------------------------------------------------------------------------------

    def records(self, kind: str | None = None, rank: int | None = None) -> Iterator[AnyRecord]:
        """All records of a kind, by attempt and then `seq`."""
        for segment in sorted(layout.segments(self.path), key=lambda one: (one.attempt, one.rank, one.number)):
            if rank in (None, segment.rank):
                found = [record for record in self._read(segment, kind) if kind in (None, records.kind_of(record))]
                found.sort(key=lambda record: record.seq)
                yield from found

    def follow(self, *, poll: float = 0.2, timeout: float | None = None) -> Iterator[AnyRecord]:
        """Yield the records as they are written, until the run finishes.

        Waits for a run that has not started. A torn last line is left for the next turn. `timeout` seconds without a
        record end it too.
        """
        heard = time.monotonic()
        for batch in self.batches(Tail(self.path), poll=poll):
            yield from batch
            if batch:
                heard = time.monotonic()
            elif timeout is not None and time.monotonic() - heard > timeout:
                return

    def batches(self, tail: Tail, *, poll: float = 0.2) -> Iterator[list[AnyRecord]]:
        """As `follow`, from where a tail is, by batch; an empty one whenever nothing has come."""
        ended = False
        while True:
            batch = tail.read()
            yield batch
            if batch:
                continue
            if ended:
                return
            # What was written between the last look and the end is read in one more turn.
            ended = self.state not in ("running", "empty")
            if ended:
                tail.look()
            else:
                time.sleep(poll)

    @property
    def summary(self) -> dict[str, Any]:
        """The last value of every series in the default view, and what the run set itself."""
        last: dict[str, tuple[tuple[int, int, int], Any]] = {}  # the lowest rank, then the newest attempt, count
        for segment, seen, scanner in self._pieces(lambda part: part.last()):
            tail = ((name, record.seq, value) for record in scanner.read() for name, value in records.points(record))
            for name, seq, value in (*seen, *tail):
                when = -segment.rank, segment.attempt, seq
                if name not in last or last[name][0] <= when:
                    last[name] = when, value
        by_hand = {key: value for event in self._events("summary") for key, value in event.data.items()}
        return {**{name: value for name, (_, value) in last.items()}, **by_hand}

    def spans(self, *names: str) -> Spans:
        """Finished spans by their start, of all names or of these; see `Spans` for what they can be asked."""
        try:
            from chiplog.store.columnar import Columns

            spans = self._span_columns(Columns())
        except (ImportError, OverflowError):  # no numpy, or numbers that nobody logs; one object each says the same
            spans = self._span_objects()
        return spans.named(*names) if names else spans

    def table(
        self, name: str, *, where: tables.Where | None = None, offset: int = 0, limit: int | None = None
    ) -> Iterator[tables.Row]:
        """The rows of a table in the order they were appended, each with its `step`; read while you go through them.

        `where` is a mapping of column to a value, several, or a function of it, or a function of the whole row;
        `offset` and `limit` count the rows that match. A page near the beginning costs no more than its rows.
        """
        return tables.rows(self._appended(name), name, where=where, offset=offset, limit=limit)

    def console(self, last: int | None = None) -> list[Line]:
        """What was printed, where it was captured: all lines or the last ones, with time, stream, rank and attempt."""
        return console.lines(self.path, lambda segment: self._read(segment, "console"), last)

    def names(self) -> list[str]:
        """The names of all series."""
        with self._look() as frame:
            return frame.names()

    def series(self, name: str, *, rank: int | None = None, attempt: int | None = None) -> Series:
        """A series: of the main rank unless one is given; in the default view unless an attempt is given.

        In the default view a newer launch hides what older ones logged from its first step on.
        """
        with self._look(whole=False) as frame:
            return frame.series(name, rank, attempt)

    def goodput(self, spans: Spans | None = None) -> Ledger:
        """Where the time of the main rank went, over all attempts: steps that counted, and everything else.

        Give its `spans` where they are at hand: they take the longest to read.
        """
        with self._look() as frame:
            from chiplog.metrics.goodput import ledger
            from chiplog.store.lives import lives

            main = self._main_rank() or 0
            spans = self.spans() if spans is None else spans
            return ledger(lives(frame, [one for one in self.attempts if one.rank == main], spans, time.time_ns()))

    def step_parts(self, spans: Spans | None = None) -> list[Share]:
        """The waterfall of a usual step of late: compute at peak, communication, data, host, and everything else."""
        with self._look() as frame:
            from chiplog.store.breakdown import usual_step

            spans = self.spans() if spans is None else spans
            return usual_step(frame, spans.of(rank=self._main_rank() or 0))

    def places(self, name: str) -> tuple[Steps, Floats]:
        """The steps and values of a series in the default view, by step: quicker than `series`, for drawing."""
        with self._look(whole=False) as frame:
            return frame.places(name)

    def to_arrow(self) -> pyarrow.Table:
        """All points of the default view: name, step, time, value, exact, rank, attempt."""
        with self._look() as frame:
            return frame.to_arrow()

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame with the steps as index and a column for every series (its last value at each step)."""
        with self._look() as frame:
            return frame.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """As `to_pandas`, with the step as the first column."""
        with self._look() as frame:
            return frame.to_polars()

    def to_xarray(self) -> xarray.Dataset:
        """A dataset with a variable for every series along `step`."""
        with self._look() as frame:
            return frame.to_xarray()

    # -- inside ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _look(self, *, whole: bool = True) -> Iterator[Frame]:
        """The columns, up to date, or with `whole=False` those that it will ask for; one thread at a time."""
        if self._frame is None:
            try:
                from chiplog.store.frame import Frame
            except ImportError as error:
                raise MissingPackage(
                    f"looking into a run needs the package {error.name!r}: pip install 'chiplog[read]'"
                ) from None
            self._frame = Frame(self.path)
        with self._frame.lock:
            if whole:
                self._frame.refresh()
            yield self._frame

    def _span_columns(self, columns: Columns) -> Spans:
        for segment, known, scanner in self._pieces(lambda part: part.span_tables()):
            for table in known:
                columns.add_table(table, segment.rank, segment.attempt)
            for record in scanner.read():
                if isinstance(record, records.Spans):
                    columns.add(record, segment.rank, segment.attempt)
        return columns.spans()

    def _span_objects(self) -> Spans:
        found: list[Span] = []
        for segment, known, scanner in self._pieces(lambda part: part.spans()):
            found += known
            for record in scanner.read():
                if isinstance(record, records.Spans):
                    found += expand(record, segment.rank, segment.attempt)
        return Spans(found)

    def _pieces(self, ask: Callable[[Part], Iterable[T]]) -> Iterator[tuple[Segment, Iterable[T], Scanner]]:
        """Every segment with what its part answers, if it has one, and a scanner for what lies beyond."""
        for segment in layout.segments(self.path):
            yield segment, *self._ask(segment, ask)

    def _ask(self, segment: Segment, ask: Callable[[Part], Iterable[T]]) -> tuple[Iterable[T], Scanner]:
        if segment not in self._parts and (part := part_of(self.path, segment)) is not None:
            self._parts[segment] = part
        return answer(self.path, segment, self._parts.get(segment), ask)

    def _read(self, segment: Segment, kind: str | None) -> Iterator[AnyRecord]:
        """A segment's records of a kind: the rare kinds from its part, where they can be had without reading all."""
        if kind in (None, "step", "spans"):
            yield from beyond(self.path, segment, None).read()
            return
        known, scanner = self._ask(segment, lambda part: part.rows(kind))
        yield from known
        yield from scanner.read()

    def _appended(self, name: str) -> Iterator[AnyRecord]:
        """The records of a table, piece by piece; never a whole segment at once."""
        for segment in sorted(layout.segments(self.path), key=lambda one: (one.attempt, one.rank, one.number)):
            known, scanner = self._ask(segment, lambda part: part.table(name))
            given: set[int] = set()
            try:
                for record in known:
                    given.add(record.seq)
                    yield record
            except Exception:  # a page further on is broken; the segment has the rest
                scanner = beyond(self.path, segment, None)
            yield from (record for record in scanner.read() if record.seq not in given)

    def _events(self, name: str) -> Iterator[Event]:
        for record in self.records("event", rank=self._main_rank()):
            if isinstance(record, Event) and record.name == name:
                yield record

    def _main_rank(self) -> int | None:
        return min((segment.rank for segment in layout.segments(self.path)), default=None)


def part_of(path: Path, segment: Segment) -> Part | None:
    """The part of a segment, if there is one and it can be read here; the journal says the same."""
    if not layout.has_part(path, segment):
        return None
    try:
        from chiplog.store import parts  # a journal alone is read without pyarrow
    except ImportError:
        return None
    return parts.load(path, segment)


def beyond(path: Path, segment: Segment, part: Part | None) -> Scanner:
    """A scanner for what a segment holds beyond its part; for all of it where there is none."""
    file = path / layout.JOURNAL / segment.filename
    return part.beyond(file) if part is not None else Scanner(file)


def answer(
    path: Path, segment: Segment, part: Part | None, ask: Callable[[Part], Iterable[T]]
) -> tuple[Iterable[T], Scanner]:
    """What a part says, and a scanner for what lies beyond; without a whole part, nothing and a scanner for all."""
    if part is not None:
        from chiplog.store.parts import Broken

        try:
            return ask(part), beyond(path, segment, part)
        except Broken:
            pass
    return (), beyond(path, segment, None)


def _holes(seqs: list[int]) -> list[tuple[int, int]]:
    """The ranges of whole numbers from 0 that are not in a sorted list, first and last included."""
    found: list[tuple[int, int]] = []
    expected = 0
    for seq in seqs:
        if seq > expected:
            found.append((expected, seq - 1))
        expected = max(expected, seq + 1)
    return found
