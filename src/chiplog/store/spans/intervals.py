"""Intervals of time in arrays: the arithmetic of `metrics.step_spans` for millions of them."""

from __future__ import annotations

import numpy as np

from chiplog.store.spans.columns import Ints


def union(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The same time as separate intervals, in order."""
    if not len(starts):
        return starts, ends
    if bool((starts[1:] < starts[:-1]).any()):
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    until = np.maximum.accumulate(ends)
    new = np.concatenate(([True], starts[1:] > until[:-1]))
    return starts[new], until[np.concatenate((new[1:], [True]))]


def covered(starts: Ints, ends: Ints) -> int:
    """Nanoseconds that at least one interval covers."""
    begins, until = union(starts, ends)
    return int((until - begins).sum())
