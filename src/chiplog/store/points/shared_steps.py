"""Sorted steps that several series have in common, as those of one loop do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from chiplog.store.points.columns import Ints, Steps

A = TypeVar("A", Ints, Steps)


def increases(values: Steps) -> bool:
    """Whether each value is greater than the one before it."""
    return bool((values[1:] > values[:-1]).all())


def union(arrays: Iterable[Steps]) -> Steps:
    """All different values in order. Arrays that are like the one before cost little, unlike with `np.unique`."""
    merged: Steps = np.empty(0, np.int64)
    for array in arrays:
        if len(array) == len(merged) and np.array_equal(array, merged):
            merged = array if merged.dtype.kind == "i" else merged
            continue
        every = np.concatenate([merged, array])
        if not (every[1:] >= every[:-1]).all():
            every = np.sort(every, kind="stable")
        merged = every[np.append(True, every[1:] != every[:-1])] if len(every) else every
    return merged


def places(ordered: Steps, values: Steps) -> Ints:
    """Where each of the values is among the ordered ones, which are all different."""
    if len(ordered) == len(values) and np.array_equal(ordered, values):
        return np.arange(len(values))
    return np.searchsorted(ordered, values)


def same(before: A | None, array: A) -> A:
    """The array before if it has the same values, so that only one is kept in memory."""
    return before if before is not None and np.array_equal(before, array) else array
