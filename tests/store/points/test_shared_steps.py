"""Sorted steps that several series have in common."""

from __future__ import annotations

import random

import numpy as np
import pytest

from chiplog.store.points.columns import Steps
from chiplog.store.points.shared_steps import increases, places, same, union


@pytest.mark.parametrize(
    ("steps", "increasing"), [([], True), ([3], True), ([1, 2, 9], True), ([1, 1], False), ([2, 1, 3], False)]
)
def test_steps_increase_if_each_is_greater(steps: list[int], increasing: bool) -> None:
    """No step and one step do."""
    assert increases(np.array(steps, np.int64)) is increasing


@pytest.mark.parametrize("seed", range(20))
def test_a_union_is_that_of_numpy(seed: int) -> None:
    """Whatever the arrays have in common: nothing, all, a part, or duplicates of their own."""
    chance = random.Random(seed)
    arrays: list[Steps] = []
    for _ in range(chance.randrange(1, 6)):
        kind = chance.choice(["loop", "again", "odd", "empty", "decimal"])
        if kind == "again" and arrays:
            arrays.append(arrays[-1].copy())
        elif kind == "loop":
            arrays.append(np.arange(chance.randrange(50), dtype=np.int64) * chance.randrange(1, 4))
        elif kind == "decimal":
            arrays.append(np.sort(np.array([chance.random() * 50 for _ in range(10)])))
        else:
            arrays.append(np.array([chance.randrange(50) for _ in range(0 if kind == "empty" else 30)], np.int64))
    merged = union(arrays)
    assert merged.tolist() == np.unique(np.concatenate(arrays)).tolist()
    assert increases(merged)


def test_whole_steps_stay_whole() -> None:
    """Also beyond 2**53, where a decimal would be another step."""
    large = np.array([2**53 + 1, 2**53 + 3], np.int64)
    merged = union([large, large + 1])
    assert merged.dtype == np.int64 and merged.tolist() == [2**53 + at for at in range(1, 5)]
    assert union([]).tolist() == [] and union(iter([large])).tolist() == large.tolist()


def test_the_places_of_a_part_are_found() -> None:
    """Of all values too, without a search."""
    ordered = np.array([1, 3, 5, 9])
    assert places(ordered, ordered).tolist() == [0, 1, 2, 3]
    assert places(ordered, np.array([9, 3])).tolist() == [3, 1]
    assert places(ordered, np.array([], np.int64)).tolist() == []


def test_equal_arrays_are_kept_once() -> None:
    """The one before is returned; another one, or the first, is itself."""
    first, equal, other = np.array([1, 2]), np.array([1, 2]), np.array([1, 3])
    assert same(None, first) is first and same(first, equal) is first and same(first, other) is other
