"""Goodput: how much of the time that a run took, over all its attempts, went into steps that counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# In the order they are shown. What is found by its own record or span is measured, the rest follows from it.
KINDS = ("step", "data", "lost", "compile", "eval", "checkpoint", "init", "idle", "down")
SLOW_START = 3.0  # times the usual step: the first one compiled


class AttemptTime(NamedTuple):
    """One attempt, in seconds on one clock: its steps by their ends, and what else it was seen doing."""

    start: float
    end: float
    ends: Floats
    lengths: Floats  # of the steps, the wait for data included
    waits: Floats  # for data, within them
    counted: NDArray[np.bool_]  # false: a newer attempt did the step again
    others: Sequence[tuple[str, float, float]] = ()  # kind, start, end: compile, eval, checkpoint


class Ledger(NamedTuple):
    """Seconds by kind; they add up to `wall`, from the first start to the last end.

    `step` is the useful time, `lost` that of steps that a newer attempt did again, `data` the wait for the loader,
    `init` until the first step begins, `down` between attempts, `idle` what is left.
    """

    seconds: dict[str, float]
    wall: float
    attempts: int

    @property
    def goodput(self) -> float:
        return self.seconds["step"] / self.wall if self.wall > 0 else 0.0


def ledger(lives: Sequence[AttemptTime]) -> Ledger:
    """Where the time of a run went; attempts that overlap count as long as each of them lived."""
    seconds = dict.fromkeys(KINDS, 0.0)
    ended = None
    wall = 0.0
    for life in sorted(lives, key=lambda one: one.start):
        if ended is not None and life.start > ended:
            seconds["down"] += life.start - ended
            wall += life.start - ended
        ended = max(life.end, ended or life.end)
        wall += life.end - life.start
        for kind, spent in _spend(life).items():
            seconds[kind] += spent
    return Ledger(seconds, wall, len(lives))


def _spend(life: AttemptTime) -> dict[str, float]:
    """The seconds of one attempt by kind."""
    spent = dict.fromkeys(KINDS, 0.0)
    total = life.end - life.start
    starts = life.ends - life.lengths
    for kind, start, end in _apart(life.others, life.start, life.end):
        spent[kind] += end - start
    inside = _covered(life.others, starts, life.ends)  # of each step, by other kinds
    lengths = np.maximum(life.lengths - inside, 0.0)
    waits = np.minimum(life.waits, lengths)
    work = lengths - waits
    if len(work):
        if not spent["compile"] and len(work) > 3 and work[0] > SLOW_START * (usual := float(np.median(work[1:]))):
            spent["compile"] = float(work[0]) - usual
            work = np.concatenate([[usual], work[1:]])
        spent["step"] = float(work[life.counted].sum())
        spent["lost"] = float((work + waits)[~life.counted].sum())
        spent["data"] = float(waits[life.counted].sum())
        first = float(starts[0])
        spent["init"] = max(0.0, first - life.start - _total(life.others, life.start, first))
    spent["idle"] = max(0.0, total - sum(spent.values()))
    return spent


def _apart(spans: Sequence[tuple[str, float, float]], start: float, end: float) -> list[tuple[str, float, float]]:
    """Spans within bounds, by their start; where two overlap the later one is cut: time is spent once."""
    kept: list[tuple[str, float, float]] = []
    at = start
    for kind, begun, ended in sorted(spans, key=lambda span: span[1]):
        first, last = max(begun, at), min(ended, end)
        if last > first:
            kept.append((kind, first, last))
            at = last
    return kept


def _total(spans: Sequence[tuple[str, float, float]], start: float, end: float) -> float:
    return sum(last - first for _, first, last in _apart(spans, start, end))


def _covered(spans: Sequence[tuple[str, float, float]], starts: Floats, ends: Floats) -> Floats:
    """How much of each step lies within a span."""
    covered = np.zeros(len(starts))
    for _, first, last in _apart(spans, -np.inf, np.inf):
        low, high = np.searchsorted(ends, first, "right"), np.searchsorted(starts, last, "left")
        covered[low:high] += np.minimum(ends[low:high], last) - np.maximum(starts[low:high], first)
    return covered
