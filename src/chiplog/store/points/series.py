"""One series of a stored run, and its downsampling."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chiplog.core.records import Number
from chiplog.store.points.blocks import Blocks, blocks, merge
from chiplog.store.points.columns import Column, Floats, Ints, Steps, from_text, take


class Buckets(NamedTuple):
    """A series in at most n buckets along its steps; hides no spike and no NaN.

    `low` and `high` are the first and last step in a bucket; `min` and `max` ignore NaN, `mean` covers the finite
    values (NaN if there are none), and `nans` counts the NaNs. Empty buckets are left out.
    """

    low: Steps
    high: Steps
    min: Floats
    max: Floats
    mean: Floats
    counts: Ints
    nans: Ints


class ByRank(NamedTuple):
    """A series as a step × rank matrix; NaN where a rank has no point, the last value where it has several."""

    steps: Steps
    ranks: Ints
    values: Floats


class Series:
    """The points of one name in the order they were logged."""

    def __init__(
        self,
        name: str,
        column: Column,
        *,
        times: Callable[[], Ints],
        by_rank: Callable[[], ByRank],
    ) -> None:
        self.name = name
        self.steps = column.steps
        self.values = column.values
        self.seqs = column.seqs
        self._exact = column.exact
        self._times = times
        self._by_rank = by_rank

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        points = f"{len(self):,} point{'s' * (len(self) != 1)}"
        if not len(self):
            return f"<series {self.name!r}: {points}>"
        steps = f"steps {self.steps[0]:,} to {self.steps[-1]:,}"
        return f"<series {self.name!r}: {points}, {steps}, last {self.values[-1]:.4g}>"

    @cached_property
    def times(self) -> NDArray[np.datetime64]:
        """When each point was logged, as datetime64[ns], UTC."""
        return self._times().astype("datetime64[ns]")

    @property
    def last(self) -> Number:
        """The last value, exact."""
        text = self._exact.get(len(self) - 1)
        value: float = self.values[-1].item()
        return value if text is None else from_text(text)

    @property
    def exact(self) -> list[Number]:
        """The values as Python numbers; large integers and booleans are exactly as logged."""
        out: list[Number] = self.values.tolist()
        for at, text in self._exact.items():
            out[at] = from_text(text)
        return out

    def without(self, count: int) -> Series:
        """The same series without the first values along its steps."""
        if not count:
            return self
        kept = np.sort(np.argsort(self.steps, kind="stable")[count:])
        column = take(Column(self.steps, self.seqs, self.values, self._exact), kept)

        def by_rank() -> ByRank:
            steps, ranks, values = self._by_rank()
            later = steps >= column.steps.min() if len(column.steps) else np.zeros(len(steps), bool)
            return ByRank(steps[later], ranks, values[later])

        return Series(self.name, column, times=lambda: self._times()[kept], by_rank=by_rank)

    def moved(self, steps: Steps) -> Series:
        """The same values at other steps."""
        column = Column(steps, self.seqs, self.values, self._exact)
        return Series(self.name, column, times=self._times, by_rank=self._by_rank)

    def by_rank(self) -> ByRank:
        return self._by_rank()

    def buckets(self, n: int = 1000, low: float | None = None, high: float | None = None) -> Buckets:
        """The series in at most `n` buckets of equal width along its steps, optionally between two steps."""
        return bucket(self.steps, self.values, n, low, high)


@np.errstate(all="ignore")  # steps and values may be infinities
def bucket(
    steps: Steps,
    values: Floats,
    n: int,
    low: float | None = None,
    high: float | None = None,
    *,
    between: tuple[float, float] | None = None,
) -> Buckets:
    """Points in at most `n` buckets of equal width; `between` sets the ends, so that several series share buckets."""
    if len(steps) > 1 and not bool(np.all(steps[1:] >= steps[:-1])):
        order = np.argsort(steps, kind="stable")
        steps, values = steps[order], values[order]
    if low is not None or high is not None:
        start = 0 if low is None else int(np.searchsorted(steps, low, "left"))
        stop = len(steps) if high is None else int(np.searchsorted(steps, high, "right"))
        steps, values = steps[start:stop], values[start:stop]
    if not len(steps):
        none, count = np.empty(0, np.float64), np.empty(0, np.int64)
        return Buckets(steps, steps, none, none, none, count, count)
    first, last = between or (float(steps[0]), float(steps[-1]))
    edges = np.linspace(first, last, n + 1)[1:-1]
    starts = _starts(steps, edges)
    return _buckets(blocks(steps, values, starts))


def bucket_blocks(fine: Blocks, n: int) -> Buckets:
    """Blocks in at most `n` buckets of about equal width: a block belongs where it starts."""
    if not len(fine.low):
        return _buckets(fine)
    with np.errstate(all="ignore"):  # steps may be infinities
        edges = np.linspace(float(fine.low[0]), float(fine.high.max()), n + 1)[1:-1]
    return _buckets(merge(fine, _starts(fine.low, edges)))


def _starts(steps: Steps, edges: Floats) -> Ints:
    """Where buckets with these edges start, without those that are empty."""
    starts = np.unique(np.concatenate([[0], np.searchsorted(steps, edges, "right")]))
    chosen: Ints = starts[starts < len(steps)]
    return chosen


def _buckets(whole: Blocks) -> Buckets:
    with np.errstate(all="ignore"):
        mean = whole.total / whole.finite
    return Buckets(whole.low, whole.high, whole.min, whole.max, mean, whole.counts, whole.nans)
