"""Intervals of time in arrays."""

from __future__ import annotations

import random

import numpy as np
import pytest

from chiplog.metrics import step_spans
from chiplog.store.spans.intervals import covered, union


@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_unions_are_those_of_plain_intervals(count: int) -> None:
    """In any order, touching, crossing, and of no length."""
    chance = random.Random(count)
    for _ in range(50):
        starts = np.array([chance.randrange(60) for _ in range(count)], np.int64)
        ends = starts + np.array([chance.randrange(8) for _ in range(count)], np.int64)
        expected = step_spans.union(zip(starts.tolist(), ends.tolist(), strict=True))
        begins, until = union(starts, ends)
        assert list(zip(begins.tolist(), until.tolist(), strict=True)) == expected
        assert covered(starts, ends) == step_spans.length(expected)
