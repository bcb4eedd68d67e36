"""The smoothed line of a chart."""

from __future__ import annotations

import numpy as np
import pytest

from chiplog.views.charts.bucketed_series import DrawnLine, XValues, draw
from chiplog.views.charts.line_smoothing import smoothed


def line(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    steps = np.arange(count, dtype=np.float64)
    return steps, np.sin(steps / count * 6) + np.random.default_rng(seed).normal(0, 0.3, count)


@pytest.mark.parametrize("count", [12, 300, 4096, 4097, 200_000])
@pytest.mark.parametrize("weight", [0.1, 0.9, 0.99])
def test_it_is_quieter_and_inside_the_data(count: int, weight: float) -> None:
    x, y = line(count)
    xs, ys = smoothed(x, y, weight)
    assert len(xs) == len(ys) <= 4096 and np.all(np.diff(xs) > 0)
    assert y.min() <= ys.min() <= ys.max() <= y.max()
    assert np.abs(np.diff(ys)).mean() < np.abs(np.diff(y)).mean()


def test_it_does_not_lag() -> None:
    """A peak stays at its place; a trailing mean would move it to the right."""
    x = np.arange(500.0)
    y = np.exp(-(((x - 250) / 20) ** 2))
    xs, ys = smoothed(x, y, 0.95)
    assert xs[np.argmax(ys)] == 250
    assert np.allclose(ys, ys[::-1][np.r_[-1:499]], atol=0.02)


def test_it_means_the_same_for_any_number_of_points() -> None:
    few, many = (smoothed(*line(count), 0.98) for count in (10_000, 1_000_000))
    assert np.abs(np.interp(np.linspace(0.05, 0.95, 50) * 1e6, *many)
                  - np.interp(np.linspace(0.05, 0.95, 50) * 1e4, *few)).max() < 0.1  # fmt: skip


def test_blocks_change_nothing_that_can_be_seen() -> None:
    x, y = line(5000)
    xs, ys = smoothed(x, y, 0.9)
    reach = 0.9 ** (1000 / 5000)
    weights = reach ** np.abs(np.arange(-400, 401))
    exact = np.convolve(y, weights, "same") / np.convolve(np.ones(5000), weights, "same")
    assert np.abs(ys - np.interp(xs, x, exact)).max() < 0.03


def test_values_that_are_not_finite_or_huge_spoil_nothing() -> None:
    x, y = line(100)
    y[40], y[41], y[60] = np.nan, np.inf, 1.7e308
    _, ys = smoothed(x, y, 0.9)
    assert np.isnan(ys[[40, 41]]).all() and np.isfinite(np.delete(ys, [40, 41])).all()
    assert smoothed(x, np.full(100, np.nan), 0.9)[0].size == 0
    assert np.all(smoothed(x, np.full(100, -3.25), 0.9)[1] == -3.25)


def test_it_does_not_depend_on_the_zoom() -> None:
    """A chart that is zoomed in shows a piece of the same line."""
    whole = DrawnLine(*line(50_000), 0.0)
    ((_, wide),) = draw([whole], XValues(smooth=0.9), 500)
    ((_, close),) = draw([whole], XValues(low=20_000, high=30_000, smooth=0.9), 500)
    inside = (wide["smooth_x"] >= 20_000) & (wide["smooth_x"] <= 30_000)
    assert np.array_equal(wide["smooth_y"][inside], close["smooth_y"][1:-1])
    ((_, plain),) = draw([whole], XValues(), 500)
    assert "smooth_y" not in plain
