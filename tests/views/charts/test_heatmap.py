"""A step × rank matrix as text."""

from __future__ import annotations

import numpy as np

from chiplog.store.points.series import ByRank
from chiplog.views.charts.heatmap import heatmap, level_map, matrix_text


def matrix(values: list[list[float]]) -> ByRank:
    array = np.array(values, np.float64)
    return ByRank(np.arange(len(array)), np.arange(array.shape[1]), array)


def test_the_rank_that_differs_is_seen() -> None:
    """Rank 2 from step 4 on; all ranks change together, which is not a difference."""
    values = [[float(step), float(step), step + (5.0 if step >= 4 else 0.0)] for step in range(8)]
    lines = heatmap(matrix(values), width=40, height=10).splitlines()
    assert lines[0] == "   0 │········│"
    assert lines[2] == "   2 │····████│"
    assert lines[-1].endswith("the farthest is rank 2 at step 4: 9")


def test_a_cell_shows_the_farthest_of_all_it_stands_for() -> None:
    """A thousand ranks on eight lines, a thousand steps in as many columns as fit: one odd value is not averaged away."""
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
    assert heatmap(matrix([[nan]]), width=40, height=4, title="x") == "x: no finite values"


def test_colour_is_only_there_when_asked_for() -> None:
    drawn = matrix([[0.0, 0.0, 1.0]])
    assert "\x1b" not in heatmap(drawn, width=40, height=4)
    assert "\x1b[38;5;196m█" in heatmap(drawn, width=40, height=4, colour=True)


def test_levels_are_means_from_the_least_to_the_most() -> None:
    """Ten ranks on two lines, each the mean of five; what is not finite does not count."""
    values = np.repeat(np.array([[0.0], [9.0]]), 5, axis=0).repeat(8, axis=1)
    values[0, 0] = np.nan
    lines = level_map(values, list(range(10)), width=15, height=4)
    assert lines[:3] == ["rank 0 " + " " * 8, "rank 5 " + "@" * 8, ""]
    assert lines[3][:2] == "0 " and lines[3][-4:] == "@@ 9" and len(lines[3]) == 16
    assert level_map(np.full((2, 2), np.nan), [0, 1], width=40, height=9) == ["no finite values"]
    assert "\x1b[48;5;226m" in level_map(values, list(range(10)), width=15, height=4, colour=True)[1]


def test_a_matrix_is_shades_of_grey() -> None:
    assert matrix_text(np.array([[0.0, 1.0], [0.5, np.nan]])) == "  ██\n▒▒  "
