"""Smoothing of a drawn line: centred, over all of its points, and the same at every zoom.

The smoothed value is a mean in which a point counts `weight` times as much as its neighbour that is one place closer.
In a line of more than a thousand points, a place is a thousandth of the line, so that a weight always looks the same.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from chiplog.store.points.columns import Floats

SMOOTHED_FROM = 10  # points
PLACES = 1000  # in a long line
BLOCKS = 4096  # of points, whose means are smoothed: much shorter than what a weight reaches


def smoothed(x: Floats, y: Floats, weight: float) -> tuple[Floats, Floats]:
    """The smoothed line; NaN where there are no finite values. Never outside the range of the finite values."""
    count = len(y)
    finite = np.isfinite(y)
    if count < SMOOTHED_FROM or not finite.any():
        return x[:0], y[:0]
    low, high = float(y[finite].min()), float(y[finite].max())
    largest = max(abs(low), abs(high)) or 1.0
    sums, counts = np.where(finite, y, 0.0) / largest, finite.astype(np.float64)
    if count > BLOCKS:
        starts = np.linspace(0, count, BLOCKS + 1)[:-1].astype(np.int64)
        x = np.add.reduceat(x / count, starts) * count / np.diff(starts, append=count)
        sums, counts = np.add.reduceat(sums, starts), np.add.reduceat(counts, starts)
    reach = weight ** (count / len(sums) * min(1.0, PLACES / count))
    with np.errstate(all="ignore"):
        means = _both_ways(sums, reach) / _both_ways(counts, reach) * largest
    return x, np.where(counts > 0, np.clip(means, low, high), np.nan)


def _both_ways(values: Floats, weight: float) -> Floats:
    """The weighted sums of each value and those before and after it."""
    listed = values.tolist()
    before = list(accumulate(listed, lambda total, value: total * weight + value))
    after = list(accumulate(reversed(listed), lambda total, value: total * weight + value))
    sums: Floats = np.array(before) + np.array(after[::-1]) - values
    return sums
