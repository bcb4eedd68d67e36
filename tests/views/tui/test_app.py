"""The terminal's board: what it shows at a size, and what keys do, without a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chiplog
from chiplog.core import records
from chiplog.core.display import columns
from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.tui.app import App
from chiplog.views.tui.panels import Style
from tests.views.web import stores

SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def board(tmp_path: Path) -> App:
    stores.rich(tmp_path)
    for number in range(40):
        stores.simple(tmp_path, f"run-{number:02d}", steps=20, lr=1e-4 * (number + 1))
    return open_board(tmp_path)


def open_board(root: Path, *, style: Style | None = None) -> App:
    summaries = SummaryCache(root)
    summaries.refresh()
    return App(summaries, style or Style())


def text(board: App, width: int = 80, height: int = 24) -> str:
    """The screen, which always fits."""
    lines = board.render(width, height)
    assert len(lines) == height
    assert all(columns(SGR.sub("", line)) <= width for line in lines)
    return "\n".join(line.rstrip() for line in lines)


def press(board: App, *keys: str) -> str:
    for key in keys:
        board.press(key)
    return text(board)


def test_a_run_is_found_and_opened(board: App) -> None:
    """Search as one would, and press enter."""
    assert "41 runs" in text(board)
    shown = press(board, "/", *"everything", "enter")
    assert "1 of 41 runs" in shown and "search: everything" in shown
    shown = press(board, "enter")
    assert "everything at once" in shown and "train/loss" in shown and "[charts]" in shown


@pytest.mark.parametrize(
    ("key", "words"),
    [("1", "train/grad_norm"), ("2", "gpu/0/power"), ("3", "highest: rank 2"), ("4", "far above its past"), ("5", "Question 550-3"),
     ("6", "no console output"), ("7", "model.layers"), ("?", "In the list")],
)  # fmt: skip
def test_every_panel_can_be_reached_at_80_by_24(board: App, key: str, words: str) -> None:
    """By its number."""
    press(board, "/", *"everything", "enter", "enter")
    assert words in press(board, key)


def test_charts_change_scale_smoothing_and_axis(board: App) -> None:
    """Each by one key, and the last line says what was chosen."""
    press(board, "/", *"everything", "enter", "enter")
    plain = text(board)
    shown = press(board, "l", "s", "x")
    assert shown != plain and "[log]" in shown and "[smooth 0.6]" in shown and "[x relative]" in shown
    assert "smoothed 0.6" in shown and "seconds" in shown
    shown = press(board, "/", *"lr$", "enter")
    assert "train/lr" in shown and "train/loss" not in shown
    shown = press(board, "enter")
    assert "1 of 1" in shown
    assert "runs, newest first" in press(board, "esc", "esc")


def test_a_search_that_is_no_expression_says_so(board: App) -> None:
    """In a run, and in the list, which keeps what matched before."""
    press(board, "/", *"everything", "enter", "enter")
    assert "/( is not a regular expression: missing )" in press(board, "/", "(", "enter")
    shown = press(board, "esc", "/", *"lr>0.00355")
    assert "5 of 41 runs" in shown and "run-39" in shown
    shown = press(board, *" (")
    assert "5 of 41 runs" in shown and "'lr>0.00355 (': " in board.render(200, 24)[0]


def test_a_search_begins_anew_and_can_be_left(board: App) -> None:
    """It takes effect with every key; the first key replaces the search before, escape brings it back."""
    assert "1 of 41 runs" in press(board, "/", *"run-07")
    assert "1 of 41 runs" in press(board, "enter")
    assert "10 of 41 runs" in press(board, "/", *"run-1")
    assert "1 of 41 runs" in press(board, "esc")
    assert "41 runs" in press(board, "/", "backspace", "enter")


@pytest.mark.parametrize("size", [(20, 6), (40, 10), (80, 24), (200, 60), (1, 1)])
@pytest.mark.parametrize("style", [Style(), Style(colour=True), Style(ascii=True)])
def test_it_fits_any_screen(tmp_path: Path, size: tuple[int, int], style: Style) -> None:
    """However small, in colour and in plain ASCII."""
    stores.rich(tmp_path)
    board = open_board(tmp_path, style=style)
    for keys in ([], ["enter"], *([str(number)] for number in range(1, 8))):
        for key in keys:
            board.press(key)
        lines = board.render(*size)
        assert len(lines) == max(6, size[1])
        assert all(columns(SGR.sub("", line)) <= max(20, size[0]) for line in lines)


def test_what_comes_appears(tmp_path: Path) -> None:
    """A board that is open sees new points at its next look."""
    with chiplog.init("live", id="now", dir=tmp_path, sinks="none") as run:
        run.log({"loss": 1.0}, step=0)
        board = open_board(tmp_path)
        press(board, "enter")
        run.log({"loss": 0.25}, step=1)
        assert board.refresh()
        assert "loss  0.25" in text(board) and "running" in text(board)
        run.alert("odd")
    board.refresh()
    assert "finished" in text(board)
    assert "odd" in press(board, "4")


def test_hostile_text_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    """Whatever a run calls itself, the only escapes are ours."""
    evil = "\x1b]0;x\x07\x1b[2J\x9b31m\u202e\r\nname"
    run = stores.make_run(
        tmp_path, "p", "evil", name=evil, tags=(evil,), config={evil: evil}, environment={"host": evil}
    )
    journal = stores.Journal(run)
    journal.add(records.Step, step=1, metrics={evil: 1.0})
    journal.add(records.Alert, title=evil, text=evil, evidence={evil: evil})
    journal.add(records.TextRecord, name=evil, text=evil, step=1)
    journal.add(records.ConsoleRecord, lines=[evil, "\x1b[31mred\x1b[0m\ttab"], times=[1, 2], stderr=[1], open=[1])
    journal.finish()
    board = open_board(tmp_path, style=Style(colour=True))
    for key in ("", "enter", *"1234567"):
        board.press(key)
        bare = SGR.sub("", "".join(board.render(80, 24)))
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", bare)
