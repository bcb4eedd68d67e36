"""Weighted means."""

from __future__ import annotations

import pytest

from chiplog.metrics.step_values.reducers import reduce
from chiplog.metrics.step_values.weighted_means import WeightedMetric, global_weighted_mean, mean_of_means


def test_a_weighted_mean_counts_tokens() -> None:
    """A16: (1, 1) and (9, 3) are 10 / 4; the mean of their means would be 2."""
    metrics = [WeightedMetric(1, 1), WeightedMetric(9, 3)]
    assert global_weighted_mean(metrics) == 2.5 == reduce(metrics)
    assert mean_of_means(metrics) == 2.0 == reduce(metrics, mean_of_means)


def test_a_denominator_has_its_bounds() -> None:
    """eps is added, min_denom is the least; nothing is never divided by."""
    assert WeightedMetric(6, 2, eps=1.0).compute() == 2.0
    assert WeightedMetric(6, 0, min_denom=3.0).compute() == 2.0
    assert WeightedMetric(6, 0).compute() == 0.0 == global_weighted_mean([])


def test_weights_that_differ_are_an_error() -> None:
    """Mixed with plain numbers, or with other bounds."""
    with pytest.raises(TypeError, match="some values are weighted"):
        global_weighted_mean([WeightedMetric(1, 1), 2.0])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="differ in eps"):
        global_weighted_mean([WeightedMetric(1, 1), WeightedMetric(1, 1, eps=1.0)])
