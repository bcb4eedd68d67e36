"""The default rules: they see what is bad, once, and cost little."""

from __future__ import annotations

import json
import random
from math import inf, nan

import pytest

from chiplog.metrics.rules.outliers import Outliers


def findings(rule, values, name="train/loss"):
    """The steps at which a rule found something, with what it was."""
    found = ((step, rule({name: value}, step)) for step, value in enumerate(values))
    return [(step, finding.rule) for step, finding in found if finding is not None]


def noisy(count: int, middle: float = 2.0, spread: float = 0.05) -> list[float]:
    noise = random.Random(0)
    return [middle + noise.gauss(0, spread) for _ in range(count)]


def test_nan_is_found_once_until_it_has_been_finite_again() -> None:
    """A loss that stays NaN is one alert."""
    assert findings(Outliers(), [1.0, nan, nan, 1.0, nan]) == [(1, "non-finite"), (4, "non-finite")]


def test_both_infinities_are_found() -> None:
    """Also from below, and as the first value of all."""
    assert findings(Outliers(), [-inf, 1.0, inf]) == [(0, "non-finite"), (2, "non-finite")]


def test_only_losses_and_gradient_norms_are_watched() -> None:
    """An infinite accuracy is somebody else's business."""
    rule = Outliers()
    assert rule({"train/acc": inf, "tokens": 5}, 0) is None
    assert rule({"eval/loss": inf}, 0) is not None


@pytest.mark.parametrize(
    "name", ["train_loss", "val_loss", "Loss/train", "losses/ce", "loss/policy", "a/total_grad_norm"]
)
def test_a_loss_is_watched_by_whatever_name(name: str) -> None:
    """As Lightning, Keras, TensorBoard's tutorials and TRL call theirs."""
    assert findings(Outliers(), [1.0, nan], name) == [(1, "non-finite")]


def test_a_spike_is_found_against_the_median_of_the_past() -> None:
    """With the evidence, the batch among it; and not again while it cools down."""
    rule = Outliers()
    assert findings(rule, noisy(200)) == []
    finding = rule({"train/loss": 9.0, "train/batch_id": 4711}, 200)
    assert finding is not None and finding.rule == "spike"
    assert finding.evidence["step"] == 200 and finding.evidence["value"] == 9.0
    assert len(finding.evidence["past"]) == 20 and 9.0 not in finding.evidence["past"]
    assert finding.evidence["train/batch_id"] == 4711
    assert rule({"train/loss": 9.0}, 201) is None


def test_a_spike_is_judged_by_the_window_as_it_is_now() -> None:
    """The threshold of 32 values ago only says what is worth a look: eight deviations are always found."""
    for length in range(140, 172):
        values = noisy(length)
        window = sorted(values[-128:])
        middle = window[64]
        deviation = sorted(abs(value - middle) for value in window)[64]
        assert findings(Outliers(), [*values, middle + 8 * deviation]) == [(length, "spike")]
        assert findings(Outliers(), [*values, middle + 7 * deviation]) == []


def test_a_falling_loss_is_no_spike() -> None:
    """The steep start of a run gives no false alarm."""
    assert findings(Outliers(), (10 / (step + 1) for step in range(500))) == []


def test_nan_does_not_poison_the_past() -> None:
    """A spike after a hundred NaN is found as before them."""
    assert findings(Outliers(), [*noisy(100), *[nan] * 100, 9.0]) == [(100, "non-finite"), (200, "spike")]


def test_a_gradient_norm_may_triple() -> None:
    """Its long tail raises no alarm; growing by a third every step is."""
    noise = random.Random(1)
    norms = [noise.lognormvariate(0, 0.3) for _ in range(2000)]
    assert findings(Outliers(), norms, "train/grad_norm") == []
    assert findings(Outliers(), [0.1 * 1.3**step for step in range(30)], "train/grad_norm")[0][1] == "spike"


def test_what_was_known_survives_a_restart() -> None:
    """The state is plain JSON, and a rule that begins with it finds the spike that a new one could not."""
    before = Outliers()
    findings(before, noisy(100))
    after = Outliers()
    after.restore(json.loads(json.dumps(before.state())))
    assert after({"train/loss": 9.0}, 100) is not None
    assert Outliers()({"train/loss": 9.0}, 100) is None
