"""Matches rows of several ranks one by one: by their names, and by their step or their position in the order.

For rows that are waited for one at a time. A row with names that only one rank logs is a match of its own, and shifts
no other. If steps are counted, the position of a row is how often its names have been logged; if the caller gives them,
they may restart with each epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count

from chiplog.metrics.ranks.absent_ranks import Attendance
from chiplog.metrics.ranks.step_gather import GatheredStep, RankRow, RowRequest

MOST = 10_000  # matches that may wait; beyond that, the oldest are dropped


class Match:
    """One row of this rank, and the rows of the others that belong to it."""

    __slots__ = ("counted", "index", "mine", "names", "number", "rows", "since", "step")

    def __init__(self, index: int, row: RankRow) -> None:
        self.index, self.counted, self.number = index, row.counted, row.step
        self.rows: dict[int, list[RankRow]] = {}
        self.names: set[str] = set()
        self.mine = False  # whether this rank has logged its row
        self.step: int | float = row.step
        self.since = 0.0

    def accepts(self, rank: int, names: Iterable[str]) -> bool:
        """Whether a row belongs here: it shares a name, and its rank has not logged that here already."""
        if self.names.isdisjoint(names):
            return False
        logged = {name for row in self.rows.get(rank, ()) for name in row.values.names}
        return logged.isdisjoint(names)


class Positions:
    """Counts how often each name has been logged: the position of a row whose step is counted."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def next(self, names: Iterable[str]) -> int:
        position = 0
        for name in names:
            times = self._times[name] = self._times.get(name, 0) + 1
            position = max(position, times)
        return position


class RowMatcher:
    """The matches of one run, as rank `mine` sees them. `now` is any clock in seconds that does not jump."""

    def __init__(self, mine: int, ranks: Iterable[int], patience: float) -> None:
        self._rank, self._patience = mine, patience
        self.attendance = Attendance(ranks)
        self._index = count()
        self._matches: dict[int, Match] = {}  # in the order of their first rows
        self._by_position: dict[tuple[bool, int | float], list[Match]] = {}
        self._last: dict[int, dict[str, Match]] = {}  # by rank and name
        self._newest: Match | None = None  # of this rank

    def __len__(self) -> int:
        return sum(match.mine for match in self._matches.values())

    def add(self, rank: int, row: RankRow, now: float, step: int | float | None = None) -> None:
        """Add a row of a rank; if it is this one's, with the step it is logged at."""
        names = row.values.names
        if row.step != row.step or not names:
            return
        match = next((one for one in self._by_position.get(_position(row), ()) if one.accepts(rank, names)), None)
        if match is None:
            if self._is_stale(rank, row):
                self.attendance.report(rank, caught_up=False)
                return
            match = self._start(row)
        match.rows.setdefault(rank, []).append(row)
        match.names.update(names)
        self._last.setdefault(rank, {}).update(dict.fromkeys(names, match))
        if rank == self._rank:
            match.mine, match.step, match.since = True, row.step if step is None else step, now
            self._newest = match
        self.attendance.report(rank, caught_up=self._newest is None or match.index >= self._newest.index)

    def form(self, ranks: Iterable[int]) -> None:
        self.attendance.form(ranks)

    def end_round(self) -> None:
        """Nothing here depends on rounds."""

    def leave(self, rank: int) -> None:
        """A rank will not report any more; its rows stay."""
        self.attendance.leave(rank)

    @property
    def newest(self) -> Match | None:
        """The match of this rank's newest row, while it waits."""
        return None if self._newest is None or self._newest.index not in self._matches else self._newest

    def request(self, rank: int, step: int | float) -> RowRequest | None:  # noqa: ARG002
        """Ask for the newest row of this rank."""
        if (match := self.newest) is None:
            return None
        names = match.rows[rank][-1].values.names
        return RowRequest(names, partial(self.is_complete, match), partial(self.gathered, match))

    def is_complete(self, match: Match, waited: float) -> bool:
        """Whether every rank has logged this row, is past it, or has been waited for too long."""
        late = self._missing(match)
        if not late:
            self.attendance.forgive(match.rows)
        elif waited > self._patience:
            self.attendance.give_up(late)
            late = set()
        return not late

    def gathered(self, match: Match) -> GatheredStep:
        alone = len(match.rows) < 2
        return GatheredStep(
            match.step, match.rows, frozenset(self.attendance.absent) - match.rows.keys(), match.index, alone
        )

    def ready(self, now: float) -> Iterator[GatheredStep]:
        """Release the matches that are complete, and those that have waited too long."""
        done = []
        for match in self._matches.values():
            if not match.mine:
                continue
            late = self._missing(match)
            if late and now - match.since > self._patience:
                self.attendance.give_up(late)
                late = set()
            if not late:
                done.append(match)
        for match in done:
            yield self._release(match)
        while len(self._matches) > MOST:
            self._release(next(iter(self._matches.values())))

    def rest(self) -> Iterator[GatheredStep]:
        """Release all matches, at the end."""
        for match in [match for match in self._matches.values() if match.mine]:
            yield self._release(match)

    def oldest(self, default: int | float) -> int | float:
        return next((match.step for match in self._matches.values() if match.mine), default)

    def _start(self, row: RankRow) -> Match:
        match = Match(next(self._index), row)
        self._matches[match.index] = match
        self._by_position.setdefault(_position(row), []).append(match)
        return match

    def _release(self, match: Match) -> GatheredStep:
        gathered = self.gathered(match)
        match.rows = {}
        del self._matches[match.index]
        position = match.counted, match.number
        self._by_position[position].remove(match)
        if not self._by_position[position]:
            del self._by_position[position]
        return gathered

    def _missing(self, match: Match) -> set[int]:
        return {r for r in self.attendance.expected if r not in match.rows and not self._is_past(r, match)}

    def _is_past(self, rank: int, match: Match) -> bool:
        """Whether a rank has logged a name of this match again, later."""
        last = self._last.get(rank, {})
        for name in match.names:
            newer = last.get(name)
            if newer is None or newer is match or newer.counted != match.counted:
                continue
            if newer.index > match.index or (newer.number > match.number and not newer.mine):
                return True
        return False

    def _is_stale(self, rank: int, row: RankRow) -> bool:
        """Whether the match of a row has been released without it."""
        if rank == self._rank or not (row.counted or self.attendance.is_behind(rank)):
            return False
        mine = self._last.get(self._rank, {})
        newest = (mine.get(name) for name in row.values.names)
        return any(one is not None and one.counted == row.counted and one.number >= row.step for one in newest)


def _position(row: RankRow) -> tuple[bool, int | float]:
    return row.counted, row.step
