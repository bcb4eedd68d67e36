"""Curves prepared for pictures."""

from __future__ import annotations

import math

import numpy as np

from chiplog.views.charts.curve_data import deviation, label, scale, smooth


def test_a_spike_is_beyond_the_scale() -> None:
    """The scale covers the bulk; one value far above it does not stretch it."""
    values = np.concatenate([np.linspace(1, 2, 500), [1e6]])
    bottom, top, log = scale(values, values)
    assert not log and 0.9 < bottom < 1 and 2 < top < 3


def test_several_decades_are_logarithmic() -> None:
    """Unless a value is not positive."""
    values = np.geomspace(1e-3, 1e3, 100)
    assert scale(values, values)[2] and not scale(np.append(values, 0.0), values)[2]


def test_no_finite_value_has_a_scale_too() -> None:
    """From 0 to 1."""
    assert scale(np.array([math.nan]), np.array([math.inf])) == (0.0, 1.0, False)


def test_only_a_rough_line_is_smoothed() -> None:
    """A learning rate stays as it is; noise becomes less, and short lines are not touched."""
    straight = np.linspace(0, 1, 200)
    rough = straight + np.random.default_rng(0).normal(0, 0.1, 200)
    assert smooth(straight) is straight and smooth(rough[:10]) is not None
    assert np.std(smooth(rough) - straight) < np.std(rough - straight) / 2


def test_a_smoothed_line_starts_and_ends_on_its_values() -> None:
    """A loss that falls fastest at first is not lower there than it was, also if NaN surrounds it."""
    rough = 1.2 + 2.7 * np.exp(-np.arange(500) / 10) + np.random.default_rng(0).normal(0, 0.02, 500)
    line = smooth(rough)
    assert line[0] == rough[0] and line[-1] == rough[-1]
    assert np.abs(line - rough).max() < 0.3 and np.isfinite(line).all()
    hole = np.concatenate([np.full(5, math.nan), rough, np.full(5, math.nan)])
    hole[200:210] = math.nan
    line = smooth(hole)
    assert line[5] == hole[5] and line[504] == hole[504] and math.isnan(line[4]) and math.isnan(line[505])


def test_a_shared_unit_is_the_label() -> None:
    """Different units have none."""
    assert label(["a_sec", "b_sec"]) == "s" and label(["a_sec", "loss"]) == ""


def test_equal_values_do_not_deviate() -> None:
    """Not even by rounding."""
    assert deviation(np.full(7, 0.1)) == 0.0
