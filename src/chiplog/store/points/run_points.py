"""The columns of a whole run: its parts and live tails, by rank and attempt, in the default view."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chiplog.core import records
from chiplog.core.records import Number
from chiplog.store import layout
from chiplog.store.contents.segment import SegmentContents
from chiplog.store.journal.lines import Scanner
from chiplog.store.layout import Segment
from chiplog.store.parts.part import Broken, Part
from chiplog.store.points.columns import EMPTY, Column, Columns, Floats, Ints, Steps, join, take
from chiplog.store.points.series import ByRank, Series
from chiplog.store.points.single_series import SingleSeries

if TYPE_CHECKING:
    import pandas
    import polars
    import xarray


class RunPoints:
    """All points of a run; `refresh` reads what is new. Safe to use from several threads."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self.lock = threading.RLock()
        self._streams: dict[tuple[int, int], _StreamPoints] = {}
        self._thin: dict[tuple[str, int, int], SingleSeries] = {}
        self._whole = False  # whether all ranks have been read

    def refresh(self, ranks: Collection[int] | None = None) -> None:
        """Read what is new, for all ranks or some."""
        self._whole = self._whole or ranks is None
        for segment in layout.segments(self._run):
            if ranks is None or segment.rank in ranks:
                stream = self._streams.get((segment.rank, segment.attempt))
                if stream is None:
                    stream = self._streams[segment.rank, segment.attempt] = _StreamPoints(segment.rank, segment.attempt)
                stream.refresh(self._run, segment)

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for stream in self._streams.values() for name in stream.names()))

    def series(self, name: str, rank: int | None = None, attempt: int | None = None) -> Series:
        """A series; reads only the ranks it needs."""
        if rank is None:
            rank = self._first(name)
        else:
            self.refresh({rank})
        return self._series(name, rank, attempt)

    def _first(self, name: str) -> int:
        """The first rank that has a series."""
        ranks = sorted({segment.rank for segment in layout.segments(self._run)})
        return next((one for one in ranks if self._has(name, one)), 0)

    def _series(self, name: str, rank: int, attempt: int | None) -> Series:
        chosen = self.view(name, rank, attempt)
        column = join(column for _, column in chosen)

        def times() -> Ints:
            with self.lock:
                return np.concatenate(
                    [stream.times(column.seqs) for stream, column in chosen] or [np.empty(0, np.int64)]
                )

        return Series(name, column, times=times, by_rank=lambda: self._by_rank(name, attempt))

    def places(self, name: str) -> tuple[Steps, Floats]:
        """The steps and values of a series of its main rank in the default view, by step."""
        rank = self._first(name)
        streams = sorted((one for one in self._streams.values() if one.rank == rank), key=lambda one: one.attempt)
        steps, values = [EMPTY.steps], [EMPTY.values]
        for stream, hiding in zip(streams, _hiding(streams, ()), strict=True):
            for found, numbers in stream.places(name):
                keep = _kept(found, hiding)
                steps.append(found if keep is None else found[keep])
                values.append(numbers if keep is None else numbers[keep])
        filled = [at for at, found in enumerate(steps) if len(found)] or [0]
        if len(filled) == 1:
            return steps[filled[0]], values[filled[0]]
        together, numbers = np.concatenate([steps[at] for at in filled]), np.concatenate([values[at] for at in filled])
        order = np.argsort(together, kind="stable")
        return together[order], numbers[order]

    def to_arrow(self) -> pa.Table:
        ranks = sorted({stream.rank for stream in self._streams.values()})
        found = [(name, *seen) for name in self.names() for rank in ranks for seen in self.view(name, rank, None)]
        found = [(name, stream, column) for name, stream, column in found if len(column.seqs)]
        whole = all(column.steps.dtype == np.int64 for _, _, column in found)
        if not whole:  # one step that is not an integer turns all into doubles
            found = [(name, stream, column._replace(steps=_as_doubles(column))) for name, stream, column in found]
        tables = [_table(*one) for one in found]
        return pa.concat_tables(tables) if tables else _NO_POINTS.empty_table()

    def to_pandas(self) -> pandas.DataFrame:
        import pandas as pd

        columns = {name: self._last_by_step(name) for name in self.names()}
        if STEP in columns:
            steps, values = columns.pop(STEP)
            if not np.array_equal(steps, values):  # otherwise the index holds the same
                columns[_beside_step(columns)] = steps, values
        series = {name: pd.Series(values, index=steps) for name, (steps, values) in columns.items()}
        frame = pd.DataFrame(series).sort_index() if series else pd.DataFrame()
        return frame.rename_axis(STEP)

    def to_polars(self) -> polars.DataFrame:
        import polars as pl

        frame = self.to_pandas()
        columns = {name: frame[name].to_numpy() for name in frame.columns}
        return pl.DataFrame({STEP: frame.index.to_numpy(), **columns})

    def to_xarray(self) -> xarray.Dataset:
        import xarray as xr

        frame = self.to_pandas()
        return xr.Dataset(
            {name: (STEP, frame[name].to_numpy()) for name in frame.columns},
            coords={STEP: frame.index.to_numpy()},
        )

    def _last_by_step(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        rank = min((stream.rank for stream in self._streams.values() if stream.has(name)), default=0)
        series = self._series(name, rank, None)
        order = np.lexsort((np.arange(len(series)), series.steps))
        steps, values = series.steps[order], series.values[order]
        last = np.append(steps[1:] != steps[:-1], True) if len(steps) else np.empty(0, bool)
        return steps[last], values[last]

    def _has(self, name: str, rank: int) -> bool:
        self.refresh({rank})
        return any(stream.has(name) for stream in self._streams.values() if stream.rank == rank)

    def _by_rank(self, name: str, attempt: int | None) -> ByRank:
        with self.lock:
            streams = self._all(name)
            ranks = sorted({stream.rank for stream in streams})
            by_rank: dict[int, list[_Lived]] = {rank: [] for rank in ranks}
            for stream in streams:
                by_rank[stream.rank].append(stream)
            main = by_rank[ranks[0]] if ranks else []
            columns = [join(column for _, column in _view(name, by_rank[rank], main, attempt)) for rank in ranks]
        steps = np.unique(np.concatenate([column.steps for column in columns])) if columns else EMPTY.steps
        values = np.full((len(steps), len(ranks)), np.nan)
        for index, column in enumerate(columns):
            values[np.searchsorted(steps, column.steps), index] = column.values
        return ByRank(steps, np.array(ranks, np.int64), values)

    def _all(self, name: str) -> list[_Lived]:
        """One series of every rank; reads nothing else of ranks that have not been read yet."""
        thin: set[tuple[str, int, int]] = set()
        loaded: set[int] = set()
        for segment in layout.segments(self._run):
            key = segment.rank, segment.attempt
            if key in self._streams or self._whole or not _is_plain(self._run, segment):
                loaded.add(segment.rank)
        self.refresh(loaded)
        for segment in layout.segments(self._run):
            if (segment.rank, segment.attempt) not in self._streams:
                at = name, segment.rank, segment.attempt
                if at not in self._thin:
                    self._thin[at] = SingleSeries(segment.rank, segment.attempt, name)
                self._thin[at].refresh(self._run, segment)
                thin.add(at)
        return [*self._streams.values(), *(self._thin[at] for at in thin)]

    def view(self, name: str, rank: int, attempt: int | None) -> list[tuple[_StreamPoints, Column]]:
        """The columns of a series in the default view with their attempts, oldest first."""
        return _view(name, [stream for stream in self._streams.values() if stream.rank == rank], (), attempt)


class _Lived(Protocol):
    """One rank in one attempt: what the default view needs to know of it."""

    rank: int
    attempt: int
    launch: str
    start: int
    end: int

    @property
    def first_step(self) -> Number | None: ...

    def column(self, name: str) -> Column: ...


L = TypeVar("L", bound=_Lived)


def _view(name: str, streams: Sequence[L], main: Sequence[_Lived], attempt: int | None) -> list[tuple[L, Column]]:
    """The columns of a series on one rank, oldest attempt first.

    A newer launch hides older points from its first step on, unless the two were written at the same time. So does a
    launch without this rank, if the main rank's attempts are given.
    """
    if attempt is not None:
        return [(stream, stream.column(name)) for stream in streams if stream.attempt == attempt]
    streams = sorted(streams, key=lambda stream: stream.attempt)  # the order they started in, whatever the clocks show
    return [
        (stream, _before(stream.column(name), hiding))
        for stream, hiding in zip(streams, _hiding(streams, main), strict=True)
    ]


def _hiding(streams: Sequence[_Lived], main: Sequence[_Lived]) -> Iterator[list[Number]]:
    """The step from which newer attempts hide each attempt."""
    firsts = [(stream, step) for stream in streams if (step := stream.first_step) is not None]
    launches = {stream.launch for stream in streams}
    order = {stream.launch: stream.attempt for stream in main}
    without = [
        (stream, step) for stream in main if stream.launch not in launches and (step := stream.first_step) is not None
    ]
    for stream in streams:
        mine = order.get(stream.launch)
        yield [step for newer, step in firsts if newer.attempt > stream.attempt and not _beside(stream, newer)] + [
            step for newer, step in without if mine is not None and newer.attempt > mine and not _beside(stream, newer)
        ]


def _beside(stream: _Lived, newer: _Lived) -> bool:
    """Whether a newer attempt belongs to the same launch, or was written at the same time.

    An attempt whose clock is before ours is newer all the same: that clock is wrong.
    """
    return newer.launch == stream.launch or max(stream.start, newer.start) <= min(stream.end, newer.end)


def _is_plain(run: Path, segment: Segment) -> bool:
    """Whether a segment is plain: neither compacted nor compressed."""
    return not layout.has_part(run, segment) and (run / layout.JOURNAL / segment.filename).exists()


class _StreamPoints:
    """One rank in one attempt: the parts of its segments, and the tails beyond them."""

    def __init__(self, rank: int, attempt: int) -> None:
        self.rank, self.attempt = rank, attempt
        self.launch = f"a{attempt:02d}"
        self.start = self.end = 0
        self._parts: dict[int, Part] = {}
        self._tails: dict[int, tuple[Scanner, Columns]] = {}
        self._sorted: tuple[Ints, Ints] | None = None

    def refresh(self, run: Path, segment: Segment) -> None:
        if segment.number not in self._tails:
            one = SegmentContents(run, segment)
            known, scanner = one.ask(lambda part: [(part, part.rows("attempt"))])
            for part, starts in known:
                self._parts[segment.number] = part
                self.end = max(self.end, part.about.last_time)
                for record in starts:
                    self._begin(record)
            self._tails[segment.number] = scanner, Columns()
        self._read(segment.number)

    def _read(self, number: int) -> None:
        scanner, columns = self._tails[number]
        for record in scanner.read():
            columns.feed(record)
            self.end = max(self.end, record.time)
            self._begin(record)

    def _instead(self, number: int) -> None:
        """Drop a broken part: read all of its segment."""
        del self._parts[number]
        self._tails[number] = Scanner(self._tails[number][0].path), Columns()
        self._read(number)

    def _begin(self, record: records.AnyRecord) -> None:
        if isinstance(record, records.Attempt):
            self.launch, self.start = record.launch, record.time

    @property
    def first_step(self) -> Number | None:
        """The step of the first row that was logged with one."""
        firsts = [(part.about.first_seq, part.about.first_step) for part in self._parts.values()]
        firsts += [(columns.first_seq, columns.first_step) for _, columns in self._tails.values()]
        return min(((seq, step) for seq, step in firsts if step is not None), default=(0, None))[1]

    def names(self) -> list[str]:
        found = [name for part in self._parts.values() for name in part.names()]
        return found + [name for _, columns in self._tails.values() for name in columns.names()]

    def has(self, name: str) -> bool:
        return any(name in part.about.names for part in self._parts.values()) or any(
            name in columns for _, columns in self._tails.values()
        )

    def column(self, name: str) -> Column:
        pieces: list[Column] = []
        for index in sorted(self._tails):
            if index in self._parts:
                try:
                    pieces.append(self._parts[index].column(name))
                except Broken:
                    self._instead(index)
            pieces.append(self._tails[index][1].column(name))
        return _by_seq(join(pieces))

    def places(self, name: str) -> Iterator[tuple[Steps, Floats]]:
        """The steps and values of a series, piece by piece."""
        for index in sorted(self._tails):
            if index in self._parts:
                try:
                    yield self._parts[index].places(name)
                except Broken:
                    self._instead(index)
            column = _by_seq(self._tails[index][1].column(name))
            yield column.steps, column.values

    def times(self, seqs: Ints) -> Ints:
        known, times = self._clock()
        found: Ints = times[np.searchsorted(known, seqs)]
        return found

    def _clock(self) -> tuple[Ints, Ints]:
        """(seqs, times) of all records by seq; sorted again only when more arrive."""
        clocks = []
        for index, part in list(self._parts.items()):
            try:
                clocks.append(part.clock)
            except Broken:
                self._instead(index)
        clocks += [columns.clock() for _, columns in self._tails.values()]
        count = sum(len(seqs) for seqs, _ in clocks)
        if self._sorted is None or len(self._sorted[0]) != count:
            known = np.concatenate([seqs for seqs, _ in clocks])
            order = np.argsort(known, kind="stable")
            self._sorted = known[order], np.concatenate([times for _, times in clocks])[order]
        return self._sorted


STEP = "step"

_NO_POINTS = pa.schema(
    [
        ("name", pa.string()),
        ("step", pa.int64()),
        ("time", pa.timestamp("ns", "UTC")),
        ("value", pa.float64()),
        ("exact", pa.string()),
        ("rank", pa.int32()),
        ("attempt", pa.int32()),
    ]
)


def _beside_step(taken: Collection[str]) -> str:
    """The column name of a metric called `step`, in a table whose steps have that name."""
    name = f"{STEP}/value"
    while name in taken:
        name += "/value"
    return name


def _table(name: str, stream: _StreamPoints, column: Column) -> pa.Table:
    count = len(column.seqs)
    return pa.table(
        {
            "name": pa.repeat(pa.scalar(name), count),
            "step": column.steps,
            "time": pa.array(stream.times(column.seqs), pa.timestamp("ns", "UTC")),
            "value": column.values,
            "exact": pa.array([column.exact.get(at) for at in range(count)], pa.string())
            if column.exact
            else pa.nulls(count, pa.string()),
            "rank": pa.repeat(pa.scalar(stream.rank, pa.int32()), count),
            "attempt": pa.repeat(pa.scalar(stream.attempt, pa.int32()), count),
        }
    )


def _as_doubles(column: Column) -> Floats:
    return column.steps.astype(np.float64)


def _by_seq(column: Column) -> Column:
    seqs = column.seqs
    if len(seqs) < 2 or bool(np.all(seqs[1:] >= seqs[:-1])):
        return column
    return take(column, np.argsort(seqs, kind="stable"))


def _before(column: Column, steps: list[Number]) -> Column:
    """The points before all of these steps; there are none before NaN."""
    keep = _kept(column.steps, steps)
    return column if keep is None else take(column, keep)


def _kept(found: Steps, hiding: list[Number]) -> NDArray[np.bool_] | None:
    """A mask of the steps before all of some others; None if all are."""
    if not hiding:
        return None
    keep: NDArray[np.bool_] = found < (min(hiding) if not any(step != step for step in hiding) else np.nan)
    return None if bool(keep.all()) else keep
