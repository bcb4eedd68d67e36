"""Words for names that do not exist."""

from __future__ import annotations

from chiplog.core.suggestions import did_you_mean, some


def test_similar_names_are_suggested() -> None:
    """Whatever their case, or if the word is part of them; otherwise nothing is."""
    assert did_you_mean("TRAIN/los", ["train/loss", "lr"]) == "did you mean 'train/loss'? "
    assert did_you_mean("norm", ["model/grad_norm_total"]) == "did you mean 'model/grad_norm_total'? "
    assert did_you_mean("xyz", ["train/loss"]) == ""


def test_a_long_list_is_cut() -> None:
    """With the number of names that are left out."""
    assert some(["a", "b", "c"], most=2) == "a, b and 1 more"
