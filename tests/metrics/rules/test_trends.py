"""The phase of a loss, and the alerts when it turns."""

from __future__ import annotations

import json
import random

import pytest

from chiplog.metrics.rules.trends import Trend

STEPS = 3000


def curve(kind: str, seed: int = 0) -> list[float]:
    noise = random.Random(seed)
    trends = {
        "converging": lambda t: 2 + 6 * 0.999**t,
        "plateau": lambda t: 2.0 if t > 500 else 6 - t / 125,
        "diverging": lambda t: 2 + 2 * 0.99**t + max(0, t - 2000) * 0.002,
        "unstable": lambda t: 2 + 6 * 0.999**t,
    }
    spreads = {"unstable": lambda t: 0.02 if t < 2400 else 0.3}
    spread = spreads.get(kind, lambda t: 0.02)
    return [trends[kind](t) + noise.gauss(0, spread(t)) for t in range(STEPS)]


def follow(rule: Trend, values: list[float]) -> list[str]:
    found = (rule({"train/loss": value}, step) for step, value in enumerate(values))
    return [str(finding.evidence["phase"]) for finding in found if finding is not None]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("kind", "level"), [("diverging", "error"), ("unstable", "warn")])
def test_a_turn_for_the_worse_is_one_alert(kind: str, level: str, seed: int) -> None:
    """A divergence, a loss that begins to swing: each is found, and told once."""
    rule = Trend()
    findings = [rule({"train/loss": value}, step) for step, value in enumerate(curve(kind, seed))]
    told = [(finding.level, finding.evidence["phase"]) for finding in findings if finding is not None]
    assert told.count((level, kind)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_plateau_is_told_again_at_longer_and_longer_intervals(seed: int) -> None:
    """Not while the loss still falls, and a few times in thousands of steps."""
    rule = Trend()
    steps = [step for step, value in enumerate(curve("plateau", seed)) if rule({"train/loss": value}, step) is not None]
    assert 500 < steps[0] < 1200 and 2 <= len(steps) <= 5


@pytest.mark.parametrize(
    ("values", "phase"),
    [
        ([2.0] * 120, "plateau"),
        ([2.0 - step / 100 for step in range(120)], "converging"),
        ([2.0 + step / 1000 for step in range(120)], "diverging"),
        ([1.0, 3.0] * 60, "unstable"),
    ],
)
def test_the_phase_is_known_from_the_fiftieth_value_on(values: list[float], phase: str) -> None:
    """Constant, falling, rising and alternating; before that it warms up."""
    rule = Trend()
    phases = []
    for step, value in enumerate(values):
        rule({"train/loss": value}, step)
        phases.append(rule.phase("train/loss"))
    assert set(phases[:49]) == {"warm-up"}
    assert set(phases[50:]) == {phase}


def test_a_constant_loss_is_told_at_the_hundredth_and_the_three_hundredth_value() -> None:
    """And then when twice as many have gone by."""
    rule = Trend()
    steps = [step for step in range(800) if rule({"train/loss": 2.0}, step) is not None]
    assert steps == [101, 301, 701]


@pytest.mark.parametrize("seed", range(5))
def test_a_loss_that_falls_is_left_alone(seed: int) -> None:
    """Converging raises no alert."""
    rule = Trend()
    assert follow(rule, curve("converging", seed)) == []
    assert rule.phase("train/loss") == "converging"


def test_it_begins_with_a_warm_up() -> None:
    """Before there is a past nothing is said of it."""
    rule = Trend()
    assert rule.phase("train/loss") == "warm-up"
    assert follow(rule, [5.0, float("nan"), 900.0] * 24) == []
    assert rule.phase("train/loss") == "warm-up"


def test_the_course_survives_a_restart() -> None:
    """A divergence that begins after the restart is seen against the best loss from before it."""
    values = curve("diverging")
    before = Trend()
    follow(before, values[:1900])
    after = Trend()
    after.restore(json.loads(json.dumps(before.state())))
    assert "diverging" in follow(after, values[1900:])
