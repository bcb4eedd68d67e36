"""Rows of several ranks, lined up one by one: by their names, and by their step or their place in the order.

For rows that are waited for one at a time. A row of names that only one rank logs is a line of its own, and shifts
nobody else's. Where steps are counted, a row's place is how often its names have been logged; where they are given,
they may begin again with each epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from chiplog.metrics.ranks.absent_ranks import Attendance
from chiplog.metrics.ranks.step_gather import GatheredStep, RankRow

MOST = 10_000  # lines that may wait; beyond, the oldest go


class Line:
    """One row of this rank, and what the others have logged with it."""

    __slots__ = ("counted", "index", "mine", "names", "number", "rows", "since", "step")

    def __init__(self, index: int, said: RankRow) -> None:
        self.index, self.counted, self.number = index, said.counted, said.step
        self.rows: dict[int, list[RankRow]] = {}
        self.names: set[str] = set()
        self.mine = False  # this rank has logged its row
        self.step: int | float = said.step
        self.since = 0.0

    def takes(self, rank: int, names: Iterable[str]) -> bool:
        """Whether a row belongs here: it shares a name, and its rank has not said that already."""
        if self.names.isdisjoint(names):
            return False
        said = {name for one in self.rows.get(rank, ()) for name in one.values.names}
        return said.isdisjoint(names)


class Places:
    """How often each name has been logged: the place of a row whose step is counted."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def next(self, names: Iterable[str]) -> int:
        place = 0
        for name in names:
            times = self._times[name] = self._times.get(name, 0) + 1
            place = max(place, times)
        return place


class Lineup:
    """The lines of one run, as rank `mine` sees them. `now` is any clock in seconds that does not jump."""

    def __init__(self, mine: int, ranks: Iterable[int], patience: float) -> None:
        self._mine, self._patience = mine, patience
        self.attendance = Attendance(ranks)
        self._index = count()
        self._lines: dict[int, Line] = {}  # in the order they began
        self._by_place: dict[tuple[bool, int | float], list[Line]] = {}
        self._last: dict[int, dict[str, Line]] = {}  # by rank and name
        self._newest: Line | None = None  # of this rank

    def __len__(self) -> int:
        return sum(line.mine for line in self._lines.values())

    def add(self, rank: int, said: RankRow, now: float, step: int | float | None = None) -> None:
        """A row of a rank; of this one, with the step it is logged at."""
        names = said.values.names
        if said.step != said.step or not names:
            return
        line = next((one for one in self._by_place.get(_place(said), ()) if one.takes(rank, names)), None)
        if line is None:
            if self._is_stale(rank, said):
                self.attendance.hear(rank, caught_up=False)
                return
            line = self._begin(said)
        line.rows.setdefault(rank, []).append(said)
        line.names.update(names)
        self._last.setdefault(rank, {}).update(dict.fromkeys(names, line))
        if rank == self._mine:
            line.mine, line.step, line.since = True, said.step if step is None else step, now
            self._newest = line
        self.attendance.hear(rank, caught_up=self._newest is None or line.index >= self._newest.index)

    def form(self, ranks: Iterable[int]) -> None:
        self.attendance.form(ranks)

    def turn(self) -> None:
        """A round is over; nothing here depends on it."""

    def leave(self, rank: int) -> None:
        """A rank will say nothing more; what it has said stays."""
        self.attendance.leave(rank)

    def ask(self, rank: int, step: int | float) -> tuple[Line] | None:  # noqa: ARG002
        """The line of this rank's newest row."""
        return None if self._newest is None or self._newest.index not in self._lines else (self._newest,)

    def names(self, rank: int, line: Line) -> tuple[str, ...]:
        """What a rank has logged last in a line."""
        return line.rows[rank][-1].values.names

    def has(self, line: Line, waited: float) -> bool:
        """Whether everybody has logged this row, is past it, or has had its time: the seconds waited."""
        late = self._missing(line)
        if not late:
            self.attendance.meet(line.rows)
        elif waited > self._patience:
            self.attendance.give_up(late)
            late = set()
        return not late

    def of(self, line: Line) -> GatheredStep:
        alone = len(line.rows) < 2
        return GatheredStep(
            line.step, line.rows, frozenset(self.attendance.absent) - line.rows.keys(), line.index, alone
        )

    def ready(self, now: float) -> Iterator[GatheredStep]:
        """Give out the lines that are complete, and those that have waited too long."""
        done = []
        for line in self._lines.values():
            if not line.mine:
                continue
            late = self._missing(line)
            if late and now - line.since > self._patience:
                self.attendance.give_up(late)
                late = set()
            if not late:
                done.append(line)
        for line in done:
            yield self._give(line)
        while len(self._lines) > MOST:
            self._give(next(iter(self._lines.values())))

    def rest(self) -> Iterator[GatheredStep]:
        """Give out everything: the end has come."""
        for line in [line for line in self._lines.values() if line.mine]:
            yield self._give(line)

    def oldest(self, default: int | float) -> int | float:
        return next((line.step for line in self._lines.values() if line.mine), default)

    def _begin(self, said: RankRow) -> Line:
        line = Line(next(self._index), said)
        self._lines[line.index] = line
        self._by_place.setdefault(_place(said), []).append(line)
        return line

    def _give(self, line: Line) -> GatheredStep:
        gathered = self.of(line)
        line.rows = {}
        del self._lines[line.index]
        place = line.counted, line.number
        self._by_place[place].remove(line)
        if not self._by_place[place]:
            del self._by_place[place]
        return gathered

    def _missing(self, line: Line) -> set[int]:
        return {r for r in self.attendance.expected if r not in line.rows and not self._is_past(r, line)}

    def _is_past(self, rank: int, line: Line) -> bool:
        """Whether a rank has logged a name of this line again, later."""
        last = self._last.get(rank, {})
        for name in line.names:
            newer = last.get(name)
            if newer is None or newer is line or newer.counted != line.counted:
                continue
            if newer.index > line.index or (newer.number > line.number and not newer.mine):
                return True
        return False

    def _is_stale(self, rank: int, said: RankRow) -> bool:
        """Whether the line of a row has been given out without it."""
        if rank == self._mine or not (said.counted or self.attendance.is_behind(rank)):
            return False
        mine = self._last.get(self._mine, {})
        found = (mine.get(name) for name in said.values.names)
        return any(one is not None and one.counted == said.counted and one.number >= said.step for one in found)


def _place(said: RankRow) -> tuple[bool, int | float]:
    return said.counted, said.step
