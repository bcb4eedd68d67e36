"""What a run prints, in the terminal."""

from __future__ import annotations

from pathlib import Path

from chiplog.core import records
from chiplog.store.contents.contents import LIVE, Contents
from chiplog.views.tui import panels
from tests.views.web import stores


def contents(root: Path, *lines: list[str]) -> Contents:
    run = stores.make_run(root, "p", "said")
    for rank, texts in enumerate(lines):
        journal = stores.Journal(run, rank=rank, world=len(lines))
        times = [10 * at + rank for at in range(len(texts))]
        journal.add(records.Console, lines=texts, times=times, open=[len(texts) - 1])
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
