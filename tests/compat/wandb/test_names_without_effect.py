"""Names of W&B's client that have no meaning here."""

from __future__ import annotations

import pytest

from chiplog.compat.wandb.names_without_effect import Inert


def test_a_name_without_effect_accepts_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """It can be called, entered, looped over and assigned to, and is reported once."""
    name = Inert("wandb.beta.workflows")
    with name.start(1, key=2) as entered:
        entered.level = 3
    assert list(name) == [] and not name and name.level.deeper() is name
    assert repr(name) == "<not kept: wandb.beta.workflows>"
    assert capsys.readouterr().err.count("wandb.beta.workflows") == 1


def test_it_has_no_special_methods_that_it_does_not_define() -> None:
    """Otherwise `copy`, `pickle` and NumPy would take it for something else."""
    assert not hasattr(Inert("wandb.beta.arrays"), "__array__")
    with pytest.raises(TypeError):
        len(Inert("wandb.beta.sizes"))
