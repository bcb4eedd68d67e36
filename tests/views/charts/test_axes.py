"""Axes."""

from __future__ import annotations

import numpy as np
import pytest

from chiplog.views.charts.axes import axis_of


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 1234.0), (1e-9, 2e-9), (5.0, 5.0)])
def test_ticks_are_within_the_axis_and_distinct(low: float, high: float) -> None:
    """At most as many as asked for, each with a label of its own."""
    axis = axis_of(np.array([low, high]), False, most=6)
    assert all(axis.low - 1e-12 <= tick <= axis.high + 1e-12 for tick in axis.ticks)
    assert 1 <= len(axis.ticks) <= 6 and len(set(axis.labels)) == len(axis.labels)


def test_a_logarithmic_axis_has_powers_of_ten() -> None:
    """And places a value by its logarithm; zero has no place."""
    axis = axis_of(np.array([1.0, 1000.0]), True, most=6)
    assert axis.ticks == [1.0, 10.0, 100.0, 1000.0]
    assert axis.shares(np.array([10.0])).tolist() == pytest.approx([1 / 3])
    assert np.isnan(axis.shares(np.array([0.0]))[0])


def test_integers_get_integer_ticks() -> None:
    """There is no step 0.5."""
    axis = axis_of(np.array([0.0, 2.0]), False, most=6, whole=True)
    assert axis.ticks == [0.0, 1.0, 2.0]
