"""Goodput: the share of a run's time, over all its attempts, that went into productive steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# In display order. Kinds with a record or span of their own are measured; the rest follows from them.
KINDS = ("step", "data", "lost", "warmup", "compile", "eval", "checkpoint", "init", "idle", "down")
OF_STEPS = ("step", "data", "lost", "warmup")
SLOW_START = 3.0  # times the usual step: the first step also prepared the others


class AttemptTime(NamedTuple):
    """One attempt, in seconds on one clock: the ends of its steps, and its other activities."""

    start: float
    end: float
    ends: Floats
    lengths: Floats  # of the steps, including the wait for data
    waits: Floats  # for data, within them
    counted: NDArray[np.bool_]  # false: a newer attempt repeated the step
    others: Sequence[tuple[str, float, float]] = ()  # kind, start, end: compile, eval, checkpoint


class Ledger(NamedTuple):
    """Seconds by kind, which sum to `wall`, the time from the first start to the last end.

    `step` is useful time, `lost` the time of steps that a newer attempt repeated, `data` the wait for the loader,
    `warmup` what a slow first step took beyond a usual one, `init` the time before the first step, `down` the time
    between attempts, and `idle` the rest.
    """

    seconds: dict[str, float]
    wall: float
    attempts: int

    @property
    def goodput(self) -> float:
        return self.seconds["step"] / self.wall if self.wall > 0 else 0.0


def ledger(attempts: Sequence[AttemptTime]) -> Ledger:
    """Where the time of a run went; attempts that overlap each count in full."""
    seconds = dict.fromkeys(KINDS, 0.0)
    ended = None
    wall = 0.0
    for attempt in sorted(attempts, key=lambda one: one.start):
        if ended is not None and attempt.start > ended:
            seconds["down"] += attempt.start - ended
            wall += attempt.start - ended
        ended = max(attempt.end, ended or attempt.end)
        wall += attempt.end - attempt.start
        for kind, spent in _spend(attempt).items():
            seconds[kind] += spent
    return Ledger(seconds, wall, len(attempts))


def _spend(attempt: AttemptTime) -> dict[str, float]:
    """The seconds of one attempt by kind."""
    spent = dict.fromkeys(KINDS, 0.0)
    total = attempt.end - attempt.start
    starts = attempt.ends - attempt.lengths
    for kind, start, end in _apart(attempt.others, attempt.start, attempt.end):
        spent[kind] += end - start
    inside = _covered(attempt.others, starts, attempt.ends)  # of each step, by other kinds
    lengths = np.maximum(attempt.lengths - inside, 0.0)
    waits = np.minimum(attempt.waits, lengths)
    work = lengths - waits
    if len(work):
        if not spent["compile"] and len(work) > 3 and work[0] > SLOW_START * (usual := float(np.median(work[1:]))):
            spent["warmup"] = float(work[0]) - usual
            work = np.concatenate([[usual], work[1:]])
        spent["step"] = float(work[attempt.counted].sum())
        spent["lost"] = float((work + waits)[~attempt.counted].sum())
        spent["data"] = float(waits[attempt.counted].sum())
        first = float(starts[0])
        spent["init"] = max(0.0, first - attempt.start - _total(attempt.others, attempt.start, first))
    _fit(spent, total)
    spent["idle"] = max(0.0, total - sum(spent.values()))
    return spent


def _fit(spent: dict[str, float], total: float) -> None:
    """Reduce the times of steps, which the run itself may have logged, to the time that there was for them."""
    of_steps = sum(spent[kind] for kind in OF_STEPS)
    room = total - (sum(spent.values()) - of_steps)
    if of_steps > room:
        for kind in OF_STEPS:
            spent[kind] *= max(0.0, room) / of_steps


def _apart(spans: Sequence[tuple[str, float, float]], start: float, end: float) -> list[tuple[str, float, float]]:
    """Spans within bounds, sorted by start; if two overlap, the later one is cut, so that no time counts twice."""
    kept: list[tuple[str, float, float]] = []
    at = start
    for kind, span_start, span_end in sorted(spans, key=lambda span: span[1]):
        first, last = max(span_start, at), min(span_end, end)
        if last > first:
            kept.append((kind, first, last))
            at = last
    return kept


def _total(spans: Sequence[tuple[str, float, float]], start: float, end: float) -> float:
    return sum(last - first for _, first, last in _apart(spans, start, end))


def _covered(spans: Sequence[tuple[str, float, float]], starts: Floats, ends: Floats) -> Floats:
    """How much of each step is inside a span."""
    covered = np.zeros(len(starts))
    for _, first, last in _apart(spans, -np.inf, np.inf):
        low, high = np.searchsorted(ends, first, "right"), np.searchsorted(starts, last, "left")
        covered[low:high] += np.minimum(ends[low:high], last) - np.maximum(starts[low:high], first)
    return covered
