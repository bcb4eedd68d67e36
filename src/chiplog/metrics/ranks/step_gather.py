"""Collects rows by step, and releases a step once every rank has reported it, moved past it, or timed out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import IntEnum
from functools import partial
from math import inf
from typing import NamedTuple

from chiplog.metrics.ranks.absent_ranks import Attendance
from chiplog.metrics.ranks.statistics import Values

SETTLED = 1.0  # s after which a step that all ranks have reported is released, even if none has moved past it
MOST = 10_000  # steps that may wait; beyond that, the oldest is released as it is


class Topic(IntEnum):
    """What a row is about; topics are gathered separately, because ranks do not evaluate when they train."""

    TRAIN = 0
    EVAL = 1
    ROUTER = 2


class RankRow(NamedTuple):
    """One row of one rank: its step, its values, and when it was logged (wall-clock nanoseconds of that rank).

    If the step was `counted` and rows are matched one by one, it is the row's position in their order.
    """

    step: int | float
    values: Values
    time: int = 0
    topic: Topic = Topic.TRAIN
    counted: bool = False


class GatheredStep(NamedTuple):
    """All rows of one step, by rank."""

    step: int | float
    rows: dict[int, list[RankRow]]
    late: frozenset[int] = frozenset()  # the ranks that did not report in time
    key: Hashable = None  # identifies it among those of the same step
    alone: bool = False  # only one rank logs such rows


class RowRequest(NamedTuple):
    """A row whose statistics a caller waits for."""

    names: tuple[str, ...]
    is_complete: Callable[[float], bool]  # of the seconds waited
    gathered: Callable[[], GatheredStep]


class StepGather:
    """Collects rows of several ranks. `now` is any clock in seconds that does not jump.

    A rank is past a step when it has reported a later one since the step first arrived. A rank that has been silent for
    `patience` seconds is not waited for until it reports again; its rows of steps that are over are then left out.
    """

    def __init__(self, ranks: Iterable[int], patience: float) -> None:
        self._patience = patience
        self._steps: dict[int | float, _Waiting] = {}
        self._latest: dict[int, int | float] = dict.fromkeys(ranks, -inf)
        self._round = 0
        self._reported: dict[int, int] = dict.fromkeys(self._latest, -1)  # the last round of each rank's reports
        self.attendance = Attendance(self._latest)

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, rank: int, row: RankRow, now: float) -> None:
        if row.step != row.step or rank not in self._latest:
            return
        waiting = self._steps.get(row.step)
        caught_up = not self.attendance.is_behind(rank) or row.step >= max(self._latest.values())
        if waiting is None and not caught_up:
            self.attendance.report(rank, caught_up=False)
            return
        if waiting is None:
            waiting = self._steps[row.step] = _Waiting(now, self._round, {})
        waiting.rows.setdefault(rank, []).append(row)
        self._latest[rank] = row.step
        self._reported[rank] = self._round
        self.attendance.report(rank, caught_up=caught_up)

    def end_round(self) -> None:
        """What arrives from now on is later."""
        self._round += 1

    def leave(self, rank: int) -> None:
        """A rank will not report any more."""
        self.attendance.leave(rank)

    def request(self, rank: int, step: int | float) -> RowRequest | None:
        """Ask for the newest row that a rank has logged at a step; None if there is none."""
        rows = self.gathered(step).rows.get(rank, ())
        if not rows:
            return None
        count = len(rows)
        return RowRequest(
            rows[-1].values.names, partial(self.is_complete, step, count), partial(self.gathered, step, count)
        )

    def is_complete(self, step: int | float, count: int, waited: float) -> bool:
        """Whether every rank has reported so many rows of a step, is past it, or has been waited for too long."""
        waiting = self._steps.get(step)
        if waiting is None:
            return False
        expected = self.attendance.expected
        late = {r for r in expected if len(waiting.rows.get(r, ())) < count and not self._latest[r] > step}
        if not late:
            self.attendance.forgive(waiting.rows)
        elif waited > self._patience:
            self.attendance.give_up(late)
            late = set()
        return not late

    def gathered(self, step: int | float, count: int | None = None) -> GatheredStep:
        """The rows of a step so far; with `count`, so many of each rank at most."""
        rows = self._steps[step].rows if step in self._steps else {}
        return self._result(step, rows if count is None else {rank: ranked[:count] for rank, ranked in rows.items()})

    def ready(self, now: float) -> Iterator[GatheredStep]:
        """Release the steps that every rank is past, and those that have waited too long."""
        self._give_up_late(now)
        expected = self.attendance.expected
        low = min((self._latest[rank] for rank in expected), default=inf)
        reported = min((self._reported[rank] for rank in expected), default=self._round)
        surplus = len(self._steps) - MOST
        done = [
            step
            for at, (step, one) in enumerate(self._steps.items())
            if (step < low and one.round <= reported)
            or at < surplus
            or (now - one.since > SETTLED and expected <= one.rows.keys())
            or now - one.since > self._patience
        ]
        for step in done:
            yield self._result(step, self._steps.pop(step).rows)

    def rest(self) -> Iterator[GatheredStep]:
        """Release all steps, at the end."""
        while self._steps:
            step = next(iter(self._steps))
            yield self._result(step, self._steps.pop(step).rows)

    def oldest(self, default: int | float) -> int | float:
        """The first of the steps that wait."""
        return min(self._steps, default=default)

    def _give_up_late(self, now: float) -> None:
        for step, waiting in self._steps.items():
            if now - waiting.since <= self._patience:
                break  # the others are newer
            expected = self.attendance.expected
            self.attendance.give_up({r for r in expected if r not in waiting.rows and not self._latest[r] > step})

    def _result(self, step: int | float, rows: dict[int, list[RankRow]]) -> GatheredStep:
        return GatheredStep(step, rows, frozenset(self.attendance.absent) - rows.keys(), step)


class _Waiting(NamedTuple):
    since: float
    round: int
    rows: dict[int, list[RankRow]]
