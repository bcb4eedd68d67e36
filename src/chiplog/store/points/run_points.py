"""The points of a whole run: its parts and live tails, by rank and attempt, in the default view."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from chiplog.core import messages
from chiplog.core.files import reading
from chiplog.core.records import Number
from chiplog.store import layout
from chiplog.store.contents.ragged import TIMES
from chiplog.store.contents.run_segments import RunSegments
from chiplog.store.layout import Segment
from chiplog.store.points.blocks import Blocks
from chiplog.store.points.blocks import join as join_blocks
from chiplog.store.points.columns import EMPTY, Column, Floats, Ints, Steps, join
from chiplog.store.points.default_view import AttemptPoints, before, view, with_limits
from chiplog.store.points.overview import Overview
from chiplog.store.points.series import ByRank, Series
from chiplog.store.points.single_series import SingleSeries
from chiplog.store.points.stream_points import StreamPoints

MOST_EMPTY = 1 << 22  # cells of a matrix of steps and ranks, which may be empty


class RunPoints:
    """All points of a run; `refresh` reads what is new. Hold `lock` while reading from several threads."""

    def __init__(self, segments: RunSegments) -> None:
        self._run, self._segments = segments.run, segments
        self.lock = segments.lock
        self._streams: dict[tuple[int, int], StreamPoints] = {}
        self._single: dict[tuple[str, int, int], SingleSeries] = {}
        self._whole = False  # whether all ranks have been read

    def refresh(self, ranks: Collection[int] | None = None) -> None:
        """Read what is new, for all ranks or some."""
        self._whole = self._whole or ranks is None
        for one in self._segments(ranks):
            key = _stream(one.segment)
            if key not in self._streams:
                self._streams[key] = StreamPoints(*key)
            self._streams[key].refresh(one)

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for stream in self._streams.values() for name in stream.names()))

    def ranks(self) -> list[int]:
        return sorted({stream.rank for stream in self._streams.values()})

    def series(self, name: str, rank: int | None = None, attempt: int | None = None) -> Series:
        """A series; reads only the ranks it needs."""
        if rank is None:
            rank = self._first_rank(name)
        else:
            self.refresh({rank})
        visible = self.view(name, rank, attempt)

        def times() -> Ints:
            with self.lock:
                return np.concatenate([EMPTY.seqs, *(stream.times(column.seqs) for stream, column in visible)])

        column = join(column for _, column in visible)
        return Series(name, column, times=times, by_rank=lambda: self._by_rank(name, attempt))

    def column(self, name: str) -> Column:
        """A series of the first rank that has it; reads nothing."""
        rank = min((stream.rank for stream in self._streams.values() if stream.has(name)), default=0)
        return join(column for _, column in self.view(name, rank))

    def places(self, name: str) -> tuple[Steps, Floats]:
        """The steps and values of a series of its main rank in the default view, by step."""
        pieces: list[tuple[Steps, Floats]] = []
        for stream, limit in with_limits(self._of_rank(self._first_rank(name))):
            for steps, values in stream.places(name):
                mask = before(steps, limit)
                pieces.append((steps, values) if mask is None else (steps[mask], values[mask]))
        pieces = [piece for piece in pieces if len(piece[0])] or [(EMPTY.steps, EMPTY.values)]
        if len(pieces) == 1:
            return pieces[0]
        steps, values = np.concatenate([piece[0] for piece in pieces]), np.concatenate([piece[1] for piece in pieces])
        order = np.argsort(steps, kind="stable")
        return steps[order], values[order]

    def overview(self, name: str) -> Overview | None:
        """A series at a glance, of its main rank in the default view; None if it has no point there."""
        pieces: list[Blocks] = []
        newest: tuple[StreamPoints, Number | None] | None = None
        for stream, limit in with_limits(self._of_rank(self._first_rank(name))):
            if seen := [one for one in stream.blocks(name, limit) if len(one.low)]:
                pieces += seen
                newest = stream, limit
        last = newest[0].last(name, newest[1]) if newest is not None else None
        return None if last is None else Overview(name, last, join_blocks(pieces))

    def count(self, name: str) -> int:
        """How many points a series has on its main rank, in all attempts."""
        return sum(stream.count(name) for stream in self._of_rank(self._first_rank(name)))

    def last_time(self, name: str) -> int:
        """When the last point of a series was logged on its main rank; 0 if there is none."""
        return max((stream.last_time(name) for stream in self._of_rank(self._first_rank(name))), default=0)

    def view(self, name: str, rank: int, attempt: int | None = None) -> list[tuple[StreamPoints, Column]]:
        """The points of a series in the default view with their streams, oldest attempt first."""
        return view(name, self._of_rank(rank), attempt=attempt)

    def limit(self, rank: int, attempt: int) -> Number | None:
        """The step from which newer attempts hide what one logged; None if none does."""
        limits = with_limits(self._of_rank(rank))
        return next((limit for stream, limit in limits if stream.attempt == attempt), None)

    def _of_rank(self, rank: int) -> list[StreamPoints]:
        return [stream for stream in self._streams.values() if stream.rank == rank]

    def _first_rank(self, name: str) -> int:
        """The first rank that has a series; reads ranks until there is one."""
        for rank in sorted({segment.rank for segment in layout.segments(self._run)}):
            self.refresh({rank})
            if any(stream.has(name) for stream in self._of_rank(rank)):
                return rank
        return 0

    def _by_rank(self, name: str, attempt: int | None) -> ByRank:
        with self.lock:
            by_rank: dict[int, list[AttemptPoints]] = {}
            for stream in self._all_ranks(name):
                by_rank.setdefault(stream.rank, []).append(stream)
            ranks = sorted(by_rank)
            main = by_rank[ranks[0]] if ranks else []
            columns = [join(column for _, column in view(name, by_rank[rank], main, attempt)) for rank in ranks]
        steps = _shared_steps(name, columns)
        values = np.full((len(steps), len(ranks)), np.nan)
        for index, column in enumerate(columns):
            places = np.searchsorted(steps, column.steps)
            there = places < len(steps)
            there[there] = (steps[places[there]] == column.steps[there]) | np.isnan(column.steps[there])
            values[places[there], index] = column.values[there]
        return ByRank(steps, np.array(ranks, np.int64), values)

    def _all_ranks(self, name: str) -> list[AttemptPoints]:
        """One series of every rank; reads nothing else of ranks that have not been read yet."""
        segments = layout.segments(self._run)
        self.refresh(
            {one.rank for one in segments if self._whole or _stream(one) in self._streams or not self._is_plain(one)}
        )
        single: dict[tuple[int, int], SingleSeries] = {}
        for segment in segments:
            if (stream := _stream(segment)) not in self._streams:
                single[stream] = self._single.setdefault((name, *stream), SingleSeries(*stream, name))
                single[stream].refresh(self._run, segment)
        return [*self._streams.values(), *single.values()]

    def _is_plain(self, segment: Segment) -> bool:
        """Whether a segment is neither compacted nor compressed."""
        return not layout.has_part(self._run, segment) and reading.exists(
            self._run, f"{layout.JOURNAL}/{segment.filename}"
        )


def _shared_steps(name: str, columns: Sequence[Column]) -> Steps:
    """The steps of all ranks; without those of the fewest ranks if the matrix would be nearly empty."""
    if not columns:
        return EMPTY.steps
    steps, counts = np.unique(np.concatenate([column.steps for column in columns]), return_counts=True)
    most = (MOST_EMPTY + TIMES * int(counts.sum())) // len(columns)
    if len(steps) <= most:
        return steps
    left = f"{len(steps) - most:,} of {len(steps):,} steps"
    messages.once(f"steps by rank {name}", f"{left} of {name[:60]!r} by rank are left out: few ranks have them")
    kept: Steps = steps[np.sort(np.argsort(-counts, kind="stable")[:most])]
    return kept


def _stream(segment: Segment) -> tuple[int, int]:
    return segment.rank, segment.attempt
