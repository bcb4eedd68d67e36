"""Figures by matplotlib."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from chiplog.views.charts import matplotlib_figures
from chiplog.views.charts.curve_data import Curve


def test_a_figure_is_saved_in_every_format_and_always_the_same(tmp_path: Path) -> None:
    """The same figure gives the same bytes."""
    written = []
    for name in ("one", "two"):
        with matplotlib_figures.styled():
            figure, (axes,) = matplotlib_figures.new(4, 3)
            axes.plot([1, 2, 3], [3.0, 2.0, 1.0])
            written.append(matplotlib_figures.save(figure, tmp_path / name / "loss", ["png", "svg"]))
    assert [path.name for path in written[0]] == ["loss.png", "loss.svg"]
    assert [path.read_bytes() for path in written[0]] == [path.read_bytes() for path in written[1]]


def test_the_users_style_is_restored() -> None:
    """Ours holds within the block only."""
    before = dict(mpl.rcParams)
    with matplotlib_figures.styled():
        assert dict(mpl.rcParams) != before
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("values", "is_drawn"),
    [(np.linspace(0.0, 1.0, 40), True), (np.linspace(0.0, 1.0, 10), False), (np.full(40, 0.5), False)],
    ids=["many", "few", "constant"],
)
def test_a_distribution_is_drawn_if_it_shows_something(values: np.ndarray, is_drawn: bool) -> None:
    """Ten evaluations are ten bars of the same length, and a constant is one bar."""
    x = np.arange(float(len(values)))
    curve = Curve("acc", x, values, values, values, values, np.empty(0), [], 0.0, 1.0, False, len(values))
    with matplotlib_figures.styled():
        (axes,) = matplotlib_figures.metric(curve, "acc", ranks=False).axes
    assert any(not patch.get_clip_on() for patch in axes.patches) == is_drawn  # it is beside the axes
