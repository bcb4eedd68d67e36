"""A run in the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.tui.panels import Style
from chiplog.views.tui.run_screen import RunScreen
from tests.views.web import stores


@pytest.fixture
def screen(tmp_path: Path) -> RunScreen:
    stores.rich(tmp_path)
    summaries = SummaryCache(tmp_path)
    summaries.refresh()
    screen = RunScreen(summaries, Style())
    screen.open(summaries.entries()[0].key)
    return screen


def press(screen: RunScreen, *keys: str) -> str:
    for key in keys:
        screen.press(key, page=10)
    return "\n".join(screen.render(100, 30))


def test_tabs_are_turned_both_ways(screen: RunScreen) -> None:
    """From the last to the first, and back."""
    assert "[charts]" in press(screen)
    assert "[overview]" in press(screen, "backtab")
    assert "[charts]" in press(screen, "tab")


def test_each_kind_of_panel_has_its_own_search(screen: RunScreen) -> None:
    """A search among samples does not hide charts."""
    press(screen, "5")
    screen.search = "question 300-2"
    assert "Question 300-2" in press(screen) and "Question 550-3" not in press(screen)
    assert "train/loss" in press(screen, "1") and screen.search == ""


def test_a_chart_alone_is_left_before_the_run(screen: RunScreen) -> None:
    """Escape goes back one step at a time."""
    assert "1 of " in press(screen, "enter")
    assert "1 of " not in press(screen, "esc") and screen.key is not None
    screen.press("esc", page=10)
    assert screen.key is None
