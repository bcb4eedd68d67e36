"""The panels of a run in the terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chiplog.core import records
from chiplog.store.contents.contents import LIVE, Contents
from chiplog.views.charts.bucketed_series import DrawnLine
from chiplog.views.tui import panels
from chiplog.views.tui.panels import highest, thinned
from tests.views.web import stores


def contents(root: Path, *lines: list[str]) -> Contents:
    run = stores.make_run(root, "p", "said")
    for rank, texts in enumerate(lines):
        journal = stores.Journal(run, rank=rank, world=len(lines))
        times = [10 * at + rank for at in range(len(texts))]
        journal.add(records.ConsoleRecord, lines=texts, times=times, open=[len(texts) - 1])
        journal.finish()
    made = Contents(run, bounds=LIVE)
    made.refresh()
    return made


def test_lines_fit_and_hold_no_escape(tmp_path: Path) -> None:
    """Colours, tabs and long lines too; the line that is not ended is last."""
    found = panels.console(contents(tmp_path, ["\x1b[31mred\x1b[0m\tx", "y" * 100, "50%"]), width=20)
    assert found == ["red     x", "y" * 19 + "…", "50%"]


def test_ranks_are_named_and_in_the_order_of_time(tmp_path: Path) -> None:
    """Where there are several."""
    found = panels.console(contents(tmp_path, ["a", "b"], ["c", "d"]), width=20)
    assert found == ["[0] a", "[1] c", "[0] b", "[1] d"]


def test_no_spike_is_lost_on_the_way_to_the_screen() -> None:
    """Of many points few remain, and among them the least, the most and every NaN."""
    values = np.zeros(100_000)
    values[777], values[55_555], values[90_000] = 9.0, -5.0, np.nan
    _, _, y = thinned("a", DrawnLine(np.arange(100_000.0), values, 0.0), 300)
    y = np.asarray(y)
    assert len(y) <= 601 and np.nanmax(y) == 9 and np.nanmin(y) == -5 and np.isnan(y).sum() == 1


def test_the_highest_rank_is_named() -> None:
    """With its distance from the median; ranks without a number do not count."""
    assert (
        highest([0, 1, 2, 3], [1.0, 1.0, 1.5, float("nan")])
        == "highest: rank 2 at 1.5 on average, 1.50 times the median"
    )
    assert highest([0], [1.0]) == ""
