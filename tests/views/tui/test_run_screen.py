"""A run in the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chiplog
from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.tui.panels import Style
from chiplog.views.tui.run_screen import RunScreen
from tests.views.web import stores


@pytest.fixture
def screen(tmp_path: Path) -> RunScreen:
    stores.rich(tmp_path)
    return opened(tmp_path)


def opened(root: Path) -> RunScreen:
    """The only run of a directory."""
    summaries = SummaryCache(root)
    summaries.refresh()
    summaries.complete(60)
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


def test_charts_are_turned_by_rows_and_the_chosen_one_is_marked(tmp_path: Path) -> None:
    """A page down skips none of them."""
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none", alerts=False) as run:
        run.log({"train/lr": 1.0, "train/loss": 1.0} | {f"layers/{at}/norm": float(at) for at in range(12)}, step=0)
    screen = opened(tmp_path)
    seen: list[str] = []
    for _ in range(4):
        shown = "\n".join(screen.render(80, 24))
        seen += [name for name in re.findall(r"(?:layers/\d+/norm|train/\w+)", shown) if name not in seen]
        screen.press("pgdn", page=20)
    assert seen == ["train/loss", "train/lr", *(f"layers/{at}/norm" for at in range(12))]
    shown = "\n".join(screen.render(80, 24))
    assert "  11-14/14" in shown and "▸" not in shown
    screen.press("home", page=20)
    screen.press("right", page=20)
    assert "▸ train/lr" in "\n".join(screen.render(80, 24))


def test_what_matters_comes_first_and_gpus_share_a_chart(screen: RunScreen) -> None:
    """Alerts are counted from the start; the training comes before the machine; samples keep their lines."""
    assert "2 alerts" in press(screen)
    assert "▸ gpu/*/power" in press(screen, "2") and "gpu/1/power" in press(screen)
    shown = press(screen, "7")
    assert shown.index("train/loss") < shown.index("eval/loss") < shown.index("gpu/0/power")


def test_lines_of_a_sample_are_lines(tmp_path: Path) -> None:
    """On a narrow screen, too."""
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none") as run:
        run.table("samples", [{"prompt": "first\n\nthird", "a long name of a column": "v"}], step=0)
    screen = opened(tmp_path)
    screen.press("5", page=10)
    lines = [line.rstrip() for line in screen.render(44, 20)]
    at = next(at for at, line in enumerate(lines) if line.endswith("first"))
    assert lines[at + 1] == "" and lines[at + 2].endswith("third") and any(line.endswith(" v") for line in lines)
