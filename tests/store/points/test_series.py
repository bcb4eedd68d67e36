"""Downsampling hides no spike and no NaN."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chiplog.store.points.series import bucket


def test_a_spike_is_in_some_bucket() -> None:
    """One point in a million shows."""
    values = np.zeros(1_000_000)
    values[123_456] = 1e6
    buckets = bucket(np.arange(1_000_000), values, 1000)
    assert buckets.max.max() == 1e6 and buckets.counts.sum() == 1_000_000 and len(buckets.counts) == 1000


def test_nan_is_counted_and_spoils_nothing() -> None:
    """The other numbers of its bucket are shown."""
    buckets = bucket(np.arange(4), np.array([1.0, np.nan, 3.0, np.inf]), 1)
    assert buckets.nans.tolist() == [1]
    assert (buckets.min[0], buckets.max[0], buckets.mean[0]) == (1.0, np.inf, 2.0)


def test_a_range_of_steps_can_be_looked_at_closely() -> None:
    """Zooming in takes only the points between two steps."""
    buckets = bucket(np.arange(100), np.arange(100.0), 10, low=20, high=29)
    assert buckets.low[0] == 20 and buckets.high[-1] == 29 and buckets.counts.sum() == 10


def test_no_points_are_no_buckets() -> None:
    """An empty series is not a mistake."""
    assert len(bucket(np.empty(0, np.int64), np.empty(0), 10).counts) == 0


@given(
    st.lists(st.tuples(st.integers(-1000, 1000), st.floats(allow_nan=True, allow_infinity=True)), max_size=200),
    st.integers(1, 50),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
def test_buckets_add_up_to_the_series(points: list[tuple[int, float]], n: int) -> None:
    """Counts, NaN counts, lowest and highest are those of all points, whatever their order."""
    steps = np.array([step for step, _ in points], np.int64)
    values = np.array([value for _, value in points], np.float64)
    with np.errstate(all="ignore"):
        buckets = bucket(steps, values, n)
    assert buckets.counts.sum() == len(points) and len(buckets.counts) <= n
    assert buckets.nans.sum() == np.isnan(values).sum()
    if (~np.isnan(values)).any():
        assert np.nanmin(buckets.min) == np.nanmin(values) and np.nanmax(buckets.max) == np.nanmax(values)
