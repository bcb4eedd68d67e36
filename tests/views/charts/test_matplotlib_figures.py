"""Figures by matplotlib."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

from chiplog.views.charts import matplotlib_figures


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
