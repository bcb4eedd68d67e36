"""Smoothing beside the losses."""

from __future__ import annotations

import pytest

from chiplog.metrics.smoothing import Smoothing


def test_the_average_is_unbiased_from_the_first_value_on() -> None:
    """It is the weighted mean of what has been seen."""
    stage = Smoothing(0.5)
    assert stage({"train/loss": 4.0}, 0) == {"train/loss": 4.0, "smoothed/train/loss": 4.0}
    assert stage({"train/loss": 2.0}, 1)["smoothed/train/loss"] == pytest.approx((0.5 * 4 + 2) / 1.5)


def test_nan_changes_nothing_and_other_names_stay() -> None:
    """A bad value does not spoil the average for ever."""
    stage = Smoothing(0.9)
    stage({"loss": 1.0}, 0)
    assert "smoothed/loss" not in stage({"loss": float("nan"), "lr": 1.0}, 1)
    assert stage({"loss": 1.0}, 2)["smoothed/loss"] == pytest.approx(1.0)


@pytest.mark.parametrize("weight", [-0.1, 1.0, 2.0])
def test_a_weight_that_makes_no_sense_is_refused(weight: float) -> None:
    """At the door."""
    with pytest.raises(ValueError, match="weight of the past"):
        Smoothing(weight)
