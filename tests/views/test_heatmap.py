"""A step × rank matrix as text."""

from __future__ import annotations

import numpy as np

from chiplog.store.series import ByRank
from chiplog.views.heatmap import heatmap


def matrix(values: list[list[float]]) -> ByRank:
    array = np.array(values, np.float64)
    return ByRank(np.arange(len(array)), np.arange(array.shape[1]), array)


def test_the_rank_that_differs_is_seen() -> None:
    """Rank 2 from step 4 on; all ranks change together, which is no difference."""
    values = [[float(step), float(step), step + (5.0 if step >= 4 else 0.0)] for step in range(8)]
    lines = heatmap(matrix(values), width=40, height=10).splitlines()
    assert lines[0] == "   0 │········│"
    assert lines[2] == "   2 │····████│"
    assert lines[-1].endswith("the farthest is rank 2 at step 4: 9")


def test_a_cell_shows_the_farthest_of_all_it_stands_for() -> None:
    """A thousand ranks on eight lines, a thousand steps in the columns there are: one odd value is not averaged away."""
    values = np.zeros((1000, 1000))
    values[700, 300] = 1.0
    lines = heatmap(matrix(values.tolist()), width=60, height=8).splitlines()
    assert len(lines) == 8 + 2 and all(len(line) <= 60 for line in lines[:-1])
    assert [line.count("█") for line in lines[:8]] == [0, 0, 1, 0, 0, 0, 0, 0]


def test_what_is_not_there_is_blank() -> None:
    """A rank that ended early, values that are not finite, and nothing at all."""
    nan = float("nan")
    lines = heatmap(matrix([[1.0, 1.0], [1.0, nan], [1.0, float("inf")]]), width=40, height=4, ascii=True).splitlines()
    assert lines[:2] == ["   0 |...|", "   1 |.  |"]
    assert heatmap(matrix([[nan]]), width=40, height=4, title="x") == "x: no value is finite"


def test_colour_is_only_there_when_asked_for() -> None:
    drawn = matrix([[0.0, 0.0, 1.0]])
    assert "\x1b" not in heatmap(drawn, width=40, height=4)
    assert "\x1b[38;5;196m█" in heatmap(drawn, width=40, height=4, colour=True)
