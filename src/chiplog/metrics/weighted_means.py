"""Means that know their weight: a sum and what it is to be divided by, so that uneven batches count as they should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class WeightedMetric(msgspec.Struct, frozen=True):
    """A sum that is not divided yet. `eps` is added to the denominator, `min_denom` bounds it from below."""

    unreduced_sum: Any
    denominator: Any
    eps: float | None = None
    min_denom: float | None = None

    def compute(self) -> Any:
        return _divide(self.unreduced_sum, self.denominator, self.eps, self.min_denom)


def global_weighted_mean(metrics: Sequence[WeightedMetric]) -> Any:
    """Σ sum / Σ denominator: what one large batch would have given. 0 where there is nothing to divide by."""
    _check(metrics)
    if not metrics:
        return 0.0
    first = metrics[0]
    return _divide(
        sum(one.unreduced_sum for one in metrics), sum(one.denominator for one in metrics), first.eps, first.min_denom
    )


def mean_of_means(metrics: Sequence[WeightedMetric]) -> Any:
    """The plain mean of what each gives on its own, whatever its weight."""
    _check(metrics)
    return sum(one.compute() for one in metrics) / len(metrics) if metrics else 0.0


def _check(metrics: Sequence[WeightedMetric]) -> None:
    if not all(isinstance(one, WeightedMetric) for one in metrics):
        raise TypeError("some values are weighted and some are not; give all of one metric in the same way")
    if len({(one.eps, one.min_denom) for one in metrics}) > 1:
        raise ValueError("weighted values of one metric have one eps and one min_denom; these differ")


def _divide(total: Any, denominator: Any, eps: float | None, least: float | None) -> Any:
    below = denominator + (eps or 0.0)
    if least is not None:
        below = max(below, least)
    return total / below if below != 0 else 0.0
