"""Aligned tables."""

from __future__ import annotations

from chiplog.core.display import columns, cut
from chiplog.views.table import Cell, pairs, table


def test_columns_are_aligned() -> None:
    """Text stands left and numbers right, two spaces apart."""
    assert table(["run", "loss"], [["a", "2.31"], ["long", "10.5"]], right=["loss"]).splitlines() == [
        "run   loss",
        "a     2.31",
        "long  10.5",
    ]


def test_an_empty_column_is_left_out() -> None:
    """A column nobody fills takes no room."""
    assert table(["a", "b", "c"], [["1", "", "3"]]).splitlines() == ["a  c", "1  3"]


def test_a_wide_table_is_cut() -> None:
    """Where the terminal is narrow the widest column gives way."""
    lines = table(["name", "x"], [["n" * 50, "1"]], width=20).splitlines()
    assert lines[1] == "n" * 16 + "…  1"


def test_wide_characters_take_two_columns() -> None:
    """Chinese and emoji do not shift what follows."""
    lines = table(["n", "x"], [["损失", "1"], ["abcd", "2"]]).splitlines()
    assert lines[1:] == ["损失  1", "abcd  2"]
    assert columns("e\u0301") == 1
    assert columns(cut("损失损失", 5)) <= 5


def test_control_characters_are_shown() -> None:
    """An escape sequence in a cell is text."""
    assert "\x1b" not in table(["\x1b[2J".strip("\x1b"), "x"], [["\x1b[2J", Cell("\x9b1m", "31")]])


def test_colour_is_only_where_it_is_wanted() -> None:
    """Styles count for nothing in the alignment, and are left out without colour."""
    rows = [[Cell("ok", "32"), "1"], [Cell("failed", "31"), "2"]]
    assert "\x1b" not in table(["state", "n"], rows)
    assert "\x1b[32mok\x1b[0m      1" in table(["state", "n"], rows, colour=True)


def test_pairs_wrap_below_their_text() -> None:
    """A long text goes on under itself."""
    assert pairs([("a", "one two three four five six"), ("bcd", "x"), ("no", "")], width=25).splitlines() == [
        "a    one two three four",
        "     five six",
        "bcd  x",
    ]


def test_numbers_are_cut_last_and_ids_never() -> None:
    """Half a number is a wrong one, and half an id finds nothing."""
    rows = [["i" * 20, "n" * 40, "1.2345 ± 0.0012"]]
    line = table(["id", "name", "loss"], rows, width=50, right=["loss"], whole=["id"]).splitlines()[1]
    assert line == f"{'i' * 20}  {'n' * 10}…  1.2345 ± 0.0012"
