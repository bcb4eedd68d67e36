"""Series by name or pattern."""

from __future__ import annotations

import pytest

from chiplog.commands.shared.series_names import match
from chiplog.core.errors import UnknownSeries

NAMES = ["eval/loss", "train/loss", "train/lr"]


def test_each_name_is_listed_once() -> None:
    """However many patterns match it."""
    assert match(["train/*", "*/loss"], NAMES) == ["train/loss", "train/lr", "eval/loss"]


def test_a_name_may_look_like_a_pattern() -> None:
    """A series of exactly that name is preferred."""
    assert match(["a[0]"], ["a[0]", "a0"]) == ["a[0]"]


def test_a_name_without_a_match_is_corrected() -> None:
    """The error has the similar name, and all names."""
    with pytest.raises(UnknownSeries, match=r"no series 'train/los'; did you mean 'train/loss'"):
        match(["train/los"], NAMES)


def test_the_last_word_of_a_name_is_enough() -> None:
    """But not a part of a word, and only if no name is exactly that."""
    assert match(["loss"], [*NAMES, "val_loss", "gloss"]) == ["eval/loss", "train/loss", "val_loss"]
    assert match(["loss"], [*NAMES, "loss"]) == ["loss"]


def test_a_run_without_series_says_so() -> None:
    """Instead of a list that is empty."""
    with pytest.raises(UnknownSeries, match="no series 'loss': no numbers have been logged in this run"):
        match(["loss"], [])
