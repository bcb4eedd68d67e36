"""Runs without their warm-up."""

from __future__ import annotations

import pytest

import chiplog
from chiplog.views.without_warmup import after, dropped, in_words


@pytest.mark.parametrize(("warmup", "count"), [(0, 0), (3, 3), (99, 10), (0.25, 2), (2.0, 10), (-1, 0), (True, 0)])
def test_a_warmup_is_a_count_or_a_fraction(warmup: int | float, count: int) -> None:
    """Never more than there is."""
    assert dropped(warmup, 10) == count


def test_series_discard_their_first_values() -> None:
    """The run itself is returned if nothing is discarded."""
    with chiplog.init(project="p", sinks="none") as run:
        for step in range(4):
            run.log({"loss": float(step)}, step=step)
    stored = chiplog.read(run.dir)
    assert after(stored, 1).series("loss").values.tolist() == [1.0, 2.0, 3.0]
    assert after(stored, 0.5).series("loss").values.tolist() == [2.0, 3.0]
    assert after(stored, 0) is stored


def test_a_caption_tells_what_is_discarded() -> None:
    """Nothing for nothing."""
    assert in_words(1000) == "without the first 1,000 values" and in_words(0) == ""
