"""A stored run: its series, records, spans, state and damage. Never writes to a run.

A run is the union of its parts and of what its journals hold beyond them. Every query first checks whether the journals
have grown, so a `Stored` stays current while the run is live.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog.core import records
from chiplog.core.errors import MissingPackage, UnknownSeries, UnknownTable
from chiplog.core.records import AnyRecord, Number, Plain
from chiplog.core.suggestions import did_you_mean, some
from chiplog.store import layout, manifest, table_rows
from chiplog.store import printed_lines as console
from chiplog.store.contents.contents import Bounds, Contents
from chiplog.store.contents.run_segments import RunSegments
from chiplog.store.journal.lines import Damage
from chiplog.store.journal.tail import Tail
from chiplog.store.printed_lines import PrintedLine
from chiplog.store.runs.state import AttemptState, attempts, describe, live_streams, state_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import xarray

    from chiplog.metrics.goodput import Ledger
    from chiplog.metrics.waterfall import Share
    from chiplog.store.points.columns import Floats, Steps
    from chiplog.store.points.overview import Overview
    from chiplog.store.points.series import Buckets, Series
    from chiplog.store.run_arrays import RunArrays
    from chiplog.store.spans.spans import Spans


class Stored:
    """A run directory opened for reading; created by `chiplog.read`."""

    def __init__(self, path: str | Path, *, cache: Path | None = None) -> None:
        self.path = Path(path)
        self.segments = RunSegments(self.path, cache=cache)
        about = manifest.load(self.path)
        self.id, self.project, self.tags = about.id, about.project, about.tags
        self.name = about.name or about.id
        self.created = about.created  # wall-clock nanoseconds
        self._description: Contents | None = None

    def __repr__(self) -> str:
        return f"<stored run {describe(self.path)}>"

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def config(self) -> dict[str, Plain]:
        """The config, with later changes applied."""
        return dict(self._described().config)

    @property
    def environment(self) -> dict[str, Plain]:
        """Host, versions, command and git state at the newest start."""
        return dict(self._described().environment)

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
        """Bytes that cannot be read, by segment and range; a write in progress is not damage."""
        contents = self._described()
        return sorted(contents.damage + contents.torn(live_streams(self.attempts)))

    @property
    def missing(self) -> dict[str, list[tuple[int, int]]]:
        """Records that were logged but lost: ranges of `seq`, by rank and attempt."""
        return self._described().missing

    # -- what it holds ---------------------------------------------------------------------------------------------

    def records(self, kind: str | None = None, rank: int | None = None) -> Iterator[AnyRecord]:
        """All records of a kind, by attempt and then `seq`. A kind that does not exist is an error."""
        unknown = kind is not None and kind not in records.KINDS
        kinds = () if kind in (None, "step", "spans") else (kind,)  # parts hold the other kinds as they were logged
        for one in self.segments():
            if rank in (None, one.segment.rank):
                chosen = [record for record in one.records(*kinds) if kind in (None, records.kind_of(record))]
                unknown = unknown and not chosen  # a newer version may have written kinds of its own
                yield from sorted(chosen, key=lambda record: record.seq)
        if unknown:
            hint = did_you_mean(str(kind), records.KINDS)
            raise UnknownSeries(f"there are no records of kind {kind!r}; {hint}available: {', '.join(records.KINDS)}")

    def follow(self, *, poll: float = 0.2, timeout: float | None = None) -> Iterator[AnyRecord]:
        """Yield the records as they are written, until the run finishes.

        Waits for a run that has not started. A torn last line is left for the next read. Stops after `timeout` seconds
        without a record.
        """
        last = time.monotonic()
        for batch in self.batches(Tail(self.path), poll=poll):
            yield from batch
            if batch:
                last = time.monotonic()
            elif timeout is not None and time.monotonic() - last > timeout:
                return

    def batches(self, tail: Tail, *, poll: float = 0.2) -> Iterator[list[AnyRecord]]:
        """Like `follow`, but from the position of a tail and in batches, which are empty when there is nothing new."""
        ended = False
        while True:
            batch = tail.read()
            yield batch
            if batch:
                continue
            if ended:
                return
            # Read once more, for what was written between the last read and the end.
            ended = self.state not in ("running", "empty")
            if ended:
                tail.find_journals()
            else:
                time.sleep(poll)

    @property
    def summary(self) -> dict[str, Plain]:
        """The last value of every series in the default view, and the values that the run set explicitly."""
        last: dict[str, tuple[tuple[int, int, int], Number]] = {}  # the lowest rank wins, then the newest attempt
        with self.segments.lock:
            for one in self.segments():
                one.refresh()
                for name, seq, value in one.last_values():
                    when = -one.segment.rank, one.segment.attempt, seq
                    if name not in last or last[name][0] <= when:
                        last[name] = when, value
        return {**{name: value for name, (_, value) in last.items()}, **self._described().summary}

    def spans(self, *names: str) -> Spans:
        """Finished spans by their start, of all names or of these; see `Spans` for queries over them."""
        spans = self._columns.spans()
        return spans.named(*names) if names else spans

    def table(
        self,
        name: str,
        *,
        where: table_rows.Where | None = None,
        offset: int = 0,
        limit: int | None = None,
        missing_ok: bool = False,
    ) -> table_rows.TableRows:
        """The rows of a table in the order they were appended, each with its `step`; read lazily.

        `where` maps columns to a value, several values or a predicate, or is a predicate on the whole row; `offset` and
        `limit` count matching rows. A page near the start costs no more than its rows. A table that the run does not
        have is an error, or with `missing_ok` empty.
        """
        appended = (record for one in self.segments() for record in one.table(name))
        rows = table_rows.TableRows(name, table_rows.rows(appended, name, where=where, offset=offset, limit=limit))
        if rows.is_empty and not missing_ok:
            tables = sorted(self.contents("table", bounds=Bounds(rows=1)).tables)
            if name not in tables:
                hint = did_you_mean(name, tables)
                raise UnknownTable(f"no table {name!r} in run {self.id}; {hint}available: {some(tables) or 'none'}")
        return rows

    def console(self, last: int | None = None) -> list[PrintedLine]:
        """What the run printed, if it was captured: all lines or the last ones, with time, stream, rank and attempt."""
        return console.lines(self.path, lambda segment: self.segments.one(segment).records("console"), last)

    def contents(self, *kinds: str, bounds: Bounds | None = None) -> Contents:
        """What the run holds besides points and spans, as of now; for all kinds of records, or some."""
        contents = Contents(self.path, *kinds, bounds=bounds, segments=self.segments)
        with contents.lock:
            return contents.refresh()

    def names(self) -> list[str]:
        """The names of all series."""
        return self._columns.names()

    def series(
        self, name: str, *, rank: int | None = None, attempt: int | None = None, missing_ok: bool = False
    ) -> Series:
        """A series: of the main rank unless one is given; in the default view unless an attempt is given.

        In the default view a newer launch hides what older ones logged from its first step on. A name, rank or attempt
        that the run does not have is an error, or with `missing_ok` an empty series.
        """
        series = self._columns.series(name, rank, attempt)
        if not len(series) and not missing_ok:
            self._check(name, rank, attempt)
        return series

    def replaced_from(self, attempt: int, *, rank: int = 0) -> Number | None:
        """The step from which newer attempts replace the points of one; None if none does."""
        return self._columns.replaced_from(attempt, rank)

    def places(self, name: str) -> tuple[Steps, Floats]:
        """The steps and values of a series in the default view, by step; for drawing, faster than `series`."""
        return self._columns.places(name)

    def overview(self, name: str) -> Overview | None:
        """A series of the default view at a glance: last value, range and course, mostly without reading its points.

        It is that of the first rank that has it. None if it has no points.
        """
        overview = self._columns.overview(name)
        if overview is None:
            self._check(name, None, None)
        return overview

    def buckets(self, name: str, n: int = 1000) -> Buckets:
        """A series of the default view in at most `n` buckets, like `series(name).buckets(n)`.

        The points of a long series are not read: its buckets then start where blocks of 512 points do.
        """
        buckets = self._columns.buckets(name, n)
        if not len(buckets.counts):
            self._check(name, None, None)
        return buckets

    def drawn(self, name: str) -> tuple[Steps, Floats, int]:
        """Like `places`, for a live run, and when its last point was logged, in wall-clock nanoseconds."""
        return self._columns.drawn(name)

    def goodput(self, spans: Spans | None = None) -> Ledger:
        """Where the time of the main rank went, over all attempts: productive steps, and everything else.

        Pass its `spans` if you have them: they take the longest to read.
        """
        attempts = [one for one in self.attempts if one.rank == self._main_rank]
        return self._columns.goodput(attempts, self.spans() if spans is None else spans)

    def step_parts(self, spans: Spans | None = None) -> list[Share]:
        """A typical recent step as a waterfall: compute at peak, communication, data, host, and everything else."""
        spans = self.spans() if spans is None else spans
        return self._columns.step_parts(spans.of(rank=self._main_rank))

    def to_arrow(self) -> pyarrow.Table:
        """All points of the default view: name, step, time, value, exact, rank, attempt."""
        return self._columns.to_arrow()

    def tables(self) -> Iterator[pyarrow.Table]:
        """The points of `to_arrow` a series at a time, for runs that are larger than the memory."""
        return self._columns.tables()

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame indexed by step, with a column per series (its last value at each step)."""
        with _needs_packages("pandas"):
            return self._columns.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Like `to_pandas`, with the step as the first column."""
        with _needs_packages("polars"):
            return self._columns.to_polars()

    def to_xarray(self) -> xarray.Dataset:
        """A dataset with a variable per series along `step`."""
        with _needs_packages("xarray"):
            return self._columns.to_xarray()

    # -- inside ----------------------------------------------------------------------------------------------------

    @cached_property
    def _columns(self) -> RunArrays:
        with _needs_packages():
            from chiplog.store.run_arrays import RunArrays
        return RunArrays(self.segments)

    def _check(self, name: str, rank: int | None, attempt: int | None) -> None:
        """Raise if a series cannot have points, because there is no such name, rank or attempt."""
        streams = layout.segments(self.path)
        for what, number, numbers in (
            ("rank", rank, {segment.rank for segment in streams}),
            ("attempt", attempt, {segment.attempt for segment in streams}),
        ):
            if number is not None and number not in numbers:
                listed = ", ".join(map(str, sorted(numbers))) or "none yet"
                raise UnknownSeries(f"run {self.id} has no {what} {number}; available: {listed}")
        if name not in (names := self.names()):
            hint = did_you_mean(name, names)
            raise UnknownSeries(f"run {self.id} has no series {name!r}; {hint}available: {some(names) or 'none yet'}")

    def _described(self) -> Contents:
        """What describes the run, refreshed."""
        if self._description is None:
            self._description = Contents(self.path, "event", bounds=Bounds(events=0), segments=self.segments)
        with self._description.lock:
            return self._description.refresh()

    @property
    def _main_rank(self) -> int:
        return min((segment.rank for segment in layout.segments(self.path)), default=0)


@contextmanager
def _needs_packages(extra: str = "read") -> Iterator[None]:
    """Around imports of what cannot be read without the packages of an extra."""
    try:
        yield
    except MissingPackage:
        raise
    except ImportError as error:
        raise MissingPackage(
            f"reading a run needs the package {error.name!r}: pip install 'chiplog[{extra}]'"
        ) from None
