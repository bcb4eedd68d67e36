"""Smoothing beside the losses."""

from __future__ import annotations

import json

import pytest

import chiplog
from chiplog.metrics.smoothing import Averages, Smoothing, exponential_mean


def test_the_average_is_unbiased_from_the_first_value_on() -> None:
    """It is the weighted mean of what has been seen."""
    stage = Smoothing(0.5)
    assert stage({"train/loss": 4.0}, 0) == {"train/loss": 4.0, "smoothed/train/loss": 4.0}
    assert stage({"train/loss": 2.0}, 1)["smoothed/train/loss"] == pytest.approx((0.5 * 4 + 2) / 1.5)


def test_nan_changes_nothing_and_other_names_stay() -> None:
    """A bad value does not spoil the average forever."""
    stage = Smoothing(0.9)
    stage({"loss": 1.0}, 0)
    assert "smoothed/loss" not in stage({"loss": float("nan"), "lr": 1.0}, 1)
    assert stage({"loss": 1.0}, 2)["smoothed/loss"] == pytest.approx(1.0)


def test_a_curve_is_smoothed_like_its_values() -> None:
    """NaN leaves a gap, and the largest doubles do no harm."""
    averages = Averages(0.9)
    values = [3.0, 1.0, 2.5, -4.0]
    assert exponential_mean(values, 0.9) == pytest.approx([averages.add("x", value) for value in values])
    assert exponential_mean([1.0, float("nan"), 1.0], 0.5) == pytest.approx([1.0, float("nan"), 1.0], nan_ok=True)
    assert exponential_mean([1.7e308] * 50, 0.99)[-1] == pytest.approx(1.7e308)


def test_every_loss_is_smoothed_by_whatever_name() -> None:
    row = {"train_loss": 1.0, "Loss/val": 2.0, "loss_scale": 3.0}
    assert Smoothing(0.5)(row, 0) == {**row, "smoothed/train_loss": 1.0, "smoothed/Loss/val": 2.0}


@pytest.mark.parametrize("weight", [-0.1, 1.0, 2.0])
def test_a_weight_that_makes_no_sense_is_refused(weight: float) -> None:
    """At the door."""
    with pytest.raises(ValueError, match="smoothing weight"):
        Smoothing(weight)


def test_an_average_may_begin_with_its_first_value() -> None:
    """Biased, as the simplest of them is: s = 0.1 x + 0.9 s."""
    averages = Averages(0.9, unbiased=False)
    assert [averages.add("loss", value) for value in (1.0, 2.0, 3.0, 4.0)] == pytest.approx([1.0, 1.1, 1.29, 1.561])


def test_what_is_not_finite_is_counted_and_spoils_nothing() -> None:
    """The average stays what it was; before the first number there is none."""
    averages = Averages(0.5)
    assert averages.add("loss", float("nan")) is None
    averages.add("loss", 4.0)
    assert averages.add("loss", float("inf")) == averages.get("loss") == 4.0
    assert averages.nonfinite == 2


def test_the_average_of_a_run_goes_on_when_the_run_does() -> None:
    """Without anybody keeping anything."""
    for step, loss in enumerate([4.0, 2.0]):
        with chiplog.init("smooth", sinks="none", id="one", smooth=0.5) as run:
            row = run.log({"train/loss": loss}, step=step)
    assert row["smoothed/train/loss"] == pytest.approx((0.5 * 4 + 2) / 1.5)


def test_an_average_goes_on_after_a_resume() -> None:
    """As if nothing had been between."""
    first, second = Smoothing(0.9), Smoothing(0.9)
    for value in (3.0, 1.0, 2.0):
        first({"loss": value}, 0)
    second.restore(json.loads(json.dumps(first.state())))
    assert second({"loss": 5.0}, 1) == first({"loss": 5.0}, 1)
