"""What ranks have said, by step: given out when all have said it, gone past it, or had their time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from math import inf
from typing import NamedTuple

from chiplog.metrics.stats import Values

SETTLED = 1.0  # s after which a step that everybody has said is given out, though nobody is past it
MOST = 10_000  # steps that may wait; beyond, the oldest is given out as it is


class Topic(IntEnum):
    """What a row is about; each is counted by itself, since ranks evaluate at other times than they train."""

    TRAIN = 0
    EVAL = 1
    ROUTER = 2


class Said(NamedTuple):
    """One row of one rank: its step, its values, and when it was logged (wall-clock nanoseconds of that rank)."""

    step: int | float
    values: Values
    time: int = 0
    topic: Topic = Topic.TRAIN


class Gathered(NamedTuple):
    """All that was said of one step, by rank."""

    step: int | float
    rows: dict[int, list[Said]]


class Tally:
    """Collects rows of several ranks. `now` is any clock in seconds that does not jump.

    A rank is past a step when it has said a later one since the step was first heard of. One that has said nothing for
    `patience` seconds is not waited for, until it speaks again.
    """

    def __init__(self, ranks: Iterable[int], patience: float) -> None:
        self._patience = patience
        self._steps: dict[int | float, _Waiting] = {}
        self._latest: dict[int, int | float] = dict.fromkeys(ranks, -inf)
        self._turn = 0
        self._heard: dict[int, int] = dict.fromkeys(self._latest, -1)
        self._expected = set(self._latest)

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, rank: int, said: Said, now: float) -> None:
        if said.step != said.step or rank not in self._latest:
            return
        waiting = self._steps.get(said.step)
        if waiting is None:
            waiting = self._steps[said.step] = _Waiting(now, self._turn, {})
        waiting.rows.setdefault(rank, []).append(said)
        self._latest[rank] = said.step
        self._heard[rank] = self._turn
        self._expected.add(rank)

    def turn(self) -> None:
        """A round is over: what is said from here on is later."""
        self._turn += 1

    def leave(self, rank: int) -> None:
        """A rank will say nothing more."""
        self._expected.discard(rank)

    def has(self, step: int | float, count: int, waited: float) -> bool:
        """Whether everybody has said so many rows of a step, or is past it, or has had its time: the seconds waited."""
        waiting = self._steps.get(step)
        if waiting is None:
            return False
        late = {r for r in self._expected if len(waiting.rows.get(r, ())) < count and not self._latest[r] > step}
        if late and waited > self._patience:
            self._expected -= late
            late = set()
        return not late

    def of(self, step: int | float, count: int | None = None) -> Gathered:
        """What has been said of a step so far; the first `count` rows of each rank, if given."""
        rows = self._steps[step].rows if step in self._steps else {}
        return Gathered(step, rows if count is None else {rank: said[:count] for rank, said in rows.items()})

    def ready(self, now: float) -> Iterator[Gathered]:
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
            yield Gathered(step, self._steps.pop(step).rows)

    def rest(self) -> Iterator[Gathered]:
        """Give out everything: the end has come."""
        while self._steps:
            step = next(iter(self._steps))
            yield Gathered(step, self._steps.pop(step).rows)

    def oldest(self, default: int | float) -> int | float:
        """The first of the steps that wait."""
        return min(self._steps, default=default)

    def _impatient(self, now: float) -> None:
        for step, waiting in self._steps.items():
            if now - waiting.since > self._patience:
                self._expected -= {r for r in self._expected if r not in waiting.rows and not self._latest[r] > step}
            else:
                break  # the others are younger


class _Waiting(NamedTuple):
    since: float
    turn: int
    rows: dict[int, list[Said]]
