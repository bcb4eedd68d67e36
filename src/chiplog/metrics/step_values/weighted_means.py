"""Weighted means: a sum and its denominator, so that uneven batches count by their weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

Scalar: TypeAlias = Any  # a number, or an array of one element that may still be on a device


class WeightedMetric(msgspec.Struct, frozen=True):
    """A sum that is not divided yet. `eps` is added to the denominator, `min_denom` is its lower bound."""

    unreduced_sum: Scalar
    denominator: Scalar
    eps: float | None = None
    min_denom: float | None = None

    def compute(self) -> Scalar:
        """The mean; 0 if the denominator is 0."""
        denominator = self.denominator + (self.eps or 0.0)
        if self.min_denom is not None:
            denominator = max(denominator, self.min_denom)
        return self.unreduced_sum / denominator if denominator != 0 else 0.0


def global_weighted_mean(metrics: Sequence[WeightedMetric]) -> Scalar:
    """Σ sum / Σ denominator: the mean that one large batch would have had. 0 if there is nothing to divide by."""
    _check(metrics)
    if not metrics:
        return 0.0
    total, denominator = sum(one.unreduced_sum for one in metrics), sum(one.denominator for one in metrics)
    return msgspec.structs.replace(metrics[0], unreduced_sum=total, denominator=denominator).compute()


def mean_of_means(metrics: Sequence[WeightedMetric]) -> Scalar:
    """The plain mean of the single means, whatever their weights."""
    _check(metrics)
    return sum(one.compute() for one in metrics) / len(metrics) if metrics else 0.0


def _check(metrics: Sequence[WeightedMetric]) -> None:
    if not all(isinstance(one, WeightedMetric) for one in metrics):
        raise TypeError("some values are weighted and some are not; give all values of a metric in the same way")
    if len({(one.eps, one.min_denom) for one in metrics}) > 1:
        raise ValueError("these weighted values of one metric differ in eps or min_denom; give all of them the same")
