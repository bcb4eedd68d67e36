"""Values as other systems accept them."""

from __future__ import annotations

import math

import pytest

from chiplog.sinks.shared import clean_values


def test_text_is_valid_utf8() -> None:
    """A lone surrogate is escaped, everything else stays."""
    assert clean_values.utf8("ünï") == "ünï"
    assert clean_values.utf8("a\ud800") == "a\\ud800"


@pytest.mark.parametrize(
    ("step", "whole"),
    [(3, 3), (2.9, 2), (None, 7), (math.nan, 7), (math.inf, 7), (10**30, 2**63 - 1), (-(10**30), 1 - 2**63)],
)
def test_a_step_is_whole_and_fits_64_bits(step: float | None, whole: int) -> None:
    """One that is missing or not finite is the default."""
    assert clean_values.whole_step(step, 7) == whole


def test_nested_data_is_cleaned_at_every_level() -> None:
    """Names and texts are UTF-8, and integers fit 64 bits."""
    data = {"a\ud800": [10**30, {"b": ("\ud800", None, 2**63 - 1, 0.5, True)}]}
    assert clean_values.plain(data) == {"a\\ud800": [1e30, {"b": ["\\ud800", None, 2**63 - 1, 0.5, True]}]}
    assert clean_values.plain([10**30], str) == [str(10**30)]
    assert clean_values.int64(10**400) == math.inf


def test_a_file_name_is_safe_and_free() -> None:
    """It is never a path, and differs from those taken in more than case."""
    assert clean_values.file_name("../a b/ü", "table") == "a-b"
    assert clean_values.file_name("..", "table") == "table"
    assert clean_values.file_name("A", "table", {"a", "a-2"}) == "A-3"
    assert len(clean_values.file_name("x" * 500, "table")) == clean_values.LONGEST_NAME
