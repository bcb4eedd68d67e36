"""The default stages and rules."""

from __future__ import annotations

import pytest

from chiplog.core.errors import BadSetting
from chiplog.metrics.rules import defaults


def test_alerts_choose_the_rules() -> None:
    """None, the cheap one, or all."""
    assert defaults.rules(False) == []
    assert [rule.name for rule in defaults.rules(True)] == ["oddities"]  # type: ignore[attr-defined]
    names = [rule.name for rule in defaults.rules("all")]  # type: ignore[attr-defined]
    assert names == ["oddities", "trend", "slowdown", "stall", "throttled", "limits"]


def test_smoothing_is_a_stage_of_its_own() -> None:
    """A weight outside of 0 to 1 is an error that names the setting."""
    (stage,) = defaults.stages(0.5)
    assert defaults.stages(None) == [] and stage({"loss": 2.0}, 0) == {"loss": 2.0, "smoothed/loss": 2.0}
    with pytest.raises(BadSetting, match=r"smooth = 2.0: the smoothing weight"):
        defaults.stages(2.0)
