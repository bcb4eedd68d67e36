"""Values that should stay within limits."""

from __future__ import annotations

import pytest

from chiplog.metrics.rules.limits import Limit, Throttled


def test_a_limit_must_be_crossed_for_a_while_and_is_told_once() -> None:
    """Two rows below are nothing, three are; again only after it had come back with a margin."""
    rule = Limit("train/mfu", below=0.3, rows=3)
    values = [0.2, 0.2, 0.4, 0.2, 0.2, 0.2, 0.2, 0.301, 0.2, 0.2, 0.2, 0.4, 0.2, 0.2, 0.2]
    found = [step for step, value in enumerate(values) if rule({"train/mfu": value}, step) is not None]
    assert found == [5, 14]


def test_a_limit_is_below_or_above() -> None:
    """Neither or both is a mistake at the door."""
    with pytest.raises(ValueError, match="either below or above"):
        Limit("x")
    with pytest.raises(ValueError, match="either below or above"):
        Limit("x", below=1, above=2)


@pytest.mark.parametrize(
    ("name", "good", "bad", "rule"),
    [
        ("moe/expert_utilization", 0.9, 0.69, "router"),
        ("train/expert_utilization", 0.7, 0.2, "router"),
        ("moe/load_imbalance", 2.5, 2.6, "imbalance"),
        ("train/moe_load_imbalance", 2.5, 2.6, "imbalance"),
        ("moe/aux_loss", 1.0, 1.1, "aux_loss"),
        ("train/moe_aux_loss", 1.0, 1.1, "aux_loss"),
        ("moe/z_loss", 0.1, 0.11, "z_loss"),
        ("train/sol", 0.6, 0.59, "sol"),
    ],
)
def test_the_default_limits(name: str, good: float, bad: float, rule: str) -> None:
    """Experts in use, load among them, their losses, speed of light: on the limit is good, beyond it is not."""

    def found(value: float) -> list[str]:
        (limits,) = Limit.defaults()
        return [finding.rule for step in range(100) if (finding := limits({name: value}, step)) is not None]

    assert found(good) == []
    assert found(bad) == [rule]


def test_limits_that_are_crossed_at_once_are_all_told() -> None:
    """With the row that crosses them; and what was told before a restart is not told again."""
    bad = {"moe/load_imbalance": 9.0, "moe/expert_utilization": 0.1, "moe/z_loss": 9.0, "loss": 1.0}
    (limits,), (later,) = Limit.defaults(), Limit.defaults()
    (finding,) = [finding for step in range(40) if (finding := limits(bad, step)) is not None]
    assert [one.rule for one in (finding, *finding.beside)] == ["router", "imbalance", "z_loss"]
    later.restore(limits.state())
    assert [later(bad, step) for step in range(40)] == [None] * 40


def test_a_throttled_gpu_is_told_once_until_it_runs_free() -> None:
    """Each GPU on its own."""
    rule = Throttled()
    reasons = [(0, ""), (0, "HW thermal"), (0, "HW thermal"), (1, "SW power cap"), (0, ""), (0, "HW thermal")]
    found = [rule.event({"id": gpu, "throttle": reason}, step) for step, (gpu, reason) in enumerate(reasons)]
    assert [finding is not None for finding in found] == [False, True, False, True, False, True]


def test_a_sample_that_does_not_say_is_no_end_of_throttling() -> None:
    """Some probes say it once a second, whatever they are asked in between."""
    rule = Throttled()
    assert rule.event({"id": 0, "throttle": "power cap"}, 1) is not None
    assert rule.event({"id": 0, "clock": 1500}, 2) is None
    assert rule.event({"id": 0, "throttle": "power cap"}, 3) is None


@pytest.mark.parametrize("reason", ["", "idle", "no cap", "not supported"])
def test_a_gpu_that_is_not_held_down_is_not_throttled(reason: str) -> None:
    """Whatever a logger calls it; and after it, a reason is news again."""
    rule = Throttled()
    assert rule.event({"id": 0, "throttle": reason}, 1) is None
    assert rule.event({"id": 0, "throttle": "power cap"}, 2) is not None
    assert rule.event({"id": 0, "throttle": reason}, 3) is None
    assert rule.event({"id": 0, "throttle": "power cap"}, 4) is not None
