"""What ranks have said, by step: given out when all have said it, gone past it, or had their time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from math import inf
from typing import Any, NamedTuple

from chiplog.metrics.ranks.absent_ranks import Attendance
from chiplog.metrics.ranks.statistics import Values

SETTLED = 1.0  # s after which a step that everybody has said is given out, though nobody is past it
MOST = 10_000  # steps that may wait; beyond, the oldest is given out as it is


class Topic(IntEnum):
    """What a row is about; each is counted by itself, since ranks evaluate at other times than they train."""

    TRAIN = 0
    EVAL = 1
    ROUTER = 2


class RankRow(NamedTuple):
    """One row of one rank: its step, its values, and when it was logged (wall-clock nanoseconds of that rank).

    Where the step was `counted` and rows are lined up, its place in the order stands for it.
    """

    step: int | float
    values: Values
    time: int = 0
    topic: Topic = Topic.TRAIN
    counted: bool = False


class GatheredStep(NamedTuple):
    """All that was said of one step, by rank."""

    step: int | float
    rows: dict[int, list[RankRow]]
    late: frozenset[int] = frozenset()  # the ranks that have not come in time
    line: Any = None  # what tells it from others of its step
    alone: bool = False  # it is one rank's own row


class StepGather:
    """Collects rows of several ranks. `now` is any clock in seconds that does not jump.

    A rank is past a step when it has said a later one since the step was first heard of. One that has said nothing for
    `patience` seconds is not waited for, until it speaks again; what it says then of steps that are over is left out.
    """

    def __init__(self, ranks: Iterable[int], patience: float) -> None:
        self._patience = patience
        self._steps: dict[int | float, _Waiting] = {}
        self._latest: dict[int, int | float] = dict.fromkeys(ranks, -inf)
        self._turn = 0
        self._heard: dict[int, int] = dict.fromkeys(self._latest, -1)
        self.attendance = Attendance(self._latest)

    @property
    def _expected(self) -> set[int]:
        return self.attendance.expected

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, rank: int, said: RankRow, now: float) -> None:
        if said.step != said.step or rank not in self._latest:
            return
        waiting = self._steps.get(said.step)
        caught_up = not self.attendance.is_behind(rank) or said.step >= max(self._latest.values())
        if waiting is None and not caught_up:
            self.attendance.hear(rank, caught_up=False)
            return
        if waiting is None:
            waiting = self._steps[said.step] = _Waiting(now, self._turn, {})
        waiting.rows.setdefault(rank, []).append(said)
        self._latest[rank] = said.step
        self._heard[rank] = self._turn
        self.attendance.hear(rank, caught_up=caught_up)

    def turn(self) -> None:
        """A round is over: what is said from here on is later."""
        self._turn += 1

    def leave(self, rank: int) -> None:
        """A rank will say nothing more."""
        self.attendance.leave(rank)

    def ask(self, rank: int, step: int | float) -> tuple[int | float, int] | None:
        """The step and how many rows this rank has logged at it; None where it has none."""
        count = len(self.of(step).rows.get(rank, ()))
        return (step, count) if count else None

    def names(self, rank: int, step: int | float, count: int) -> tuple[str, ...]:
        """The names of such a row."""
        return self._steps[step].rows[rank][count - 1].values.names

    def has(self, step: int | float, count: int, waited: float) -> bool:
        """Whether everybody has said so many rows of a step, or is past it, or has had its time: the seconds waited."""
        waiting = self._steps.get(step)
        if waiting is None:
            return False
        late = {r for r in self._expected if len(waiting.rows.get(r, ())) < count and not self._latest[r] > step}
        if not late:
            self.attendance.meet(waiting.rows)
        elif waited > self._patience:
            self.attendance.give_up(late)
            late = set()
        return not late

    def of(self, step: int | float, count: int | None = None) -> GatheredStep:
        """What has been said of a step so far; the first `count` rows of each rank, if given."""
        rows = self._steps[step].rows if step in self._steps else {}
        return self._gathered(step, rows if count is None else {rank: said[:count] for rank, said in rows.items()})

    def ready(self, now: float) -> Iterator[GatheredStep]:
        """Give out the steps that everybody is past, and those that have waited too long."""
        self._impatient(now)
        low = min((self._latest[rank] for rank in self._expected), default=inf)
        heard = min((self._heard[rank] for rank in self._expected), default=self._turn)
        surplus = len(self._steps) - MOST
        done = [
            step
            for at, (step, one) in enumerate(self._steps.items())
            if (step < low and one.turn <= heard)
            or at < surplus
            or (now - one.since > SETTLED and self._expected <= one.rows.keys())
            or now - one.since > self._patience
        ]
        for step in done:
            yield self._gathered(step, self._steps.pop(step).rows)

    def rest(self) -> Iterator[GatheredStep]:
        """Give out everything: the end has come."""
        while self._steps:
            step = next(iter(self._steps))
            yield self._gathered(step, self._steps.pop(step).rows)

    def oldest(self, default: int | float) -> int | float:
        """The first of the steps that wait."""
        return min(self._steps, default=default)

    def _impatient(self, now: float) -> None:
        for step, waiting in self._steps.items():
            if now - waiting.since > self._patience:
                late = {r for r in self._expected if r not in waiting.rows and not self._latest[r] > step}
                self.attendance.give_up(late)
            else:
                break  # the others are younger

    def _gathered(self, step: int | float, rows: dict[int, list[RankRow]]) -> GatheredStep:
        return GatheredStep(step, rows, frozenset(self.attendance.absent) - rows.keys(), step)


class _Waiting(NamedTuple):
    since: float
    turn: int
    rows: dict[int, list[RankRow]]
