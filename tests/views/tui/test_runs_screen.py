"""The list of runs in the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.tui.panels import Style
from chiplog.views.tui.runs_screen import RunsScreen
from tests.views.web import stores


@pytest.fixture
def runs(tmp_path: Path) -> RunsScreen:
    for number in range(40):
        stores.simple(tmp_path, f"run-{number:02d}", steps=20, lr=1e-4 * (number + 1))
    summaries = SummaryCache(tmp_path)
    summaries.refresh()
    return RunsScreen(summaries, Style())


def press(runs: RunsScreen, *keys: str) -> str:
    for key in keys:
        runs.press(key, page=10)
    return "\n".join(runs.render(80, 24))


def test_the_list_scrolls_with_the_chosen_run(runs: RunsScreen) -> None:
    """Sorted by name; the end is the last."""
    assert re.search(r"^> .* run-39", press(runs, "s", "end"), re.MULTILINE)
    assert re.search(r"^> .* run-01", press(runs, "home", "down"), re.MULTILINE)


def test_every_word_of_a_search_must_match(runs: RunsScreen) -> None:
    """In any of the texts of a run; escape clears the search."""
    runs.search = "tiny run-07"
    assert "1 of 40 runs" in press(runs) and "run-07" in press(runs)
    runs.search = "tiny other"
    assert "no run matches" in press(runs) and runs.chosen is None
    assert "40 runs" in press(runs, "esc")
