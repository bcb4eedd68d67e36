"""The default rules: they see what is bad, once, and cost little."""

from __future__ import annotations

import random

from chiplog.metrics.alerts import NonFinite, Spike


def test_nan_is_found_once_until_it_has_been_finite_again() -> None:
    """A loss that stays NaN is one alert."""
    rule = NonFinite()
    nan = float("nan")
    found = [rule({"train/loss": value}, step) for step, value in enumerate([1.0, nan, nan, 1.0, nan])]
    assert [finding is not None for finding in found] == [False, True, False, False, True]


def test_only_losses_and_gradient_norms_are_watched() -> None:
    """An infinite accuracy is somebody else's business."""
    rule = NonFinite()
    assert rule({"train/acc": float("inf"), "tokens": 5}, 0) is None
    assert rule({"eval/loss": float("inf")}, 0) is not None


def test_a_spike_is_found_against_the_median_of_the_past() -> None:
    """With the evidence; and not again while it cools down."""
    noise = random.Random(0)
    rule = Spike()
    for step in range(200):
        assert rule({"train/loss": 2.0 + noise.gauss(0, 0.05)}, step) is None
    finding = rule({"train/loss": 9.0}, 200)
    assert finding is not None and finding.evidence["step"] == 200 and len(finding.evidence["past"]) == 20
    assert rule({"train/loss": 9.0}, 201) is None


def test_a_falling_loss_is_no_spike() -> None:
    """The steep start of a run gives no false alarm."""
    rule = Spike()
    assert all(rule({"train/loss": 10 / (step + 1)}, step) is None for step in range(500))
