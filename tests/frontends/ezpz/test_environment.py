"""The variables that ezpz reads."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from chiplog.frontends.ezpz.environment import EXPERIMENT_VARIABLES, default_project, is_on, wandb_is_off


def test_the_default_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first variable that is set, else from the script."""
    assert default_project({"WANDB_PROJECT": "b", "WB_PROJECT": "a"}) == "a"
    assert default_project({"MLFLOW_EXPERIMENT_NAME": "e", "WB_PROJECT": "a"}, EXPERIMENT_VARIABLES) == "e"
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert default_project({}) == "ezpz"
    main.__file__ = "/home/me/gpt/train.py"
    assert default_project({"WB_PROJECT": ""}) == "ezpz.gpt.train"
    main.__file__ = "/home/me/gpt/runs/../train.py"  # `python ../train.py`
    assert default_project({}) == "ezpz.gpt.train"


@pytest.mark.parametrize(("value", "expected"), [(None, False), ("", False), ("0", False), ("Off", False), ("1", True)])
def test_switches(value: str | None, expected: bool) -> None:
    """ "0" and the like do not switch anything on."""
    assert is_on(value) is expected


def test_wandb_is_off() -> None:
    """By its mode or by its own switch."""
    assert wandb_is_off({"WANDB_MODE": "disabled"}) and wandb_is_off({"WANDB_DISABLED": "true"})
    assert not wandb_is_off({"WANDB_MODE": "offline", "WANDB_DISABLED": "false"})
