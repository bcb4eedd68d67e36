"""The kit for a terminal: colour, width, text that fits, and numbers in words."""

from __future__ import annotations

import io
import os
import pty

import pytest

from chiplog.core import display
from chiplog.core.display import columns, cut, fit, paint, unpainted, wrap


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


# -- the terminal ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_colour_is_for_terminals(environ: dict[str, str], expected: bool) -> None:
    """That obey escapes, and whose user wants it; a file never has it."""
    assert display.has_colour(Terminal(), environ) is expected
    assert not display.has_colour(io.StringIO(), environ) and not display.has_colour(None, environ)


def test_any_object_may_stand_for_a_stream() -> None:
    """One that is closed, or no stream at all, is not a terminal."""
    closed = io.StringIO()
    closed.close()
    assert not display.is_terminal(closed, {}) and not display.is_terminal(object(), {})  # type: ignore[arg-type]
    assert display.terminal_size(object(), {}, (7, 8)) == (7, 8)  # type: ignore[arg-type]


def test_the_width_is_that_of_columns_before_that_of_the_terminal() -> None:
    """What neither says is the default."""
    assert display.terminal_size(None, {"COLUMNS": "77", "LINES": "x"}, (100, 30)) == (77, 30)
    leader, follower = pty.openpty()
    try:
        with os.fdopen(follower, "w") as stream:  # a terminal that does not say how large it is
            assert display.terminal_size(stream, {"COLUMNS": "0"}, (100, 30)) == (100, 30)
    finally:
        os.close(leader)


def test_a_screen_is_never_too_small() -> None:
    assert display.screen(io.StringIO(), {"COLUMNS": "3", "LINES": "2"}) == display.Screen(
        40, 10, False, True, piped=True
    )
    assert display.screen(Terminal(), {}) == display.Screen(100, 30, True, False)


# -- text that fits ----------------------------------------------------------------------------------------------------


def test_paint_goes_on_and_comes_off() -> None:
    """Nothing is painted without a style, without colour, or where there is no text."""
    assert paint("ok", "32") == "\x1b[32mok\x1b[0m" and unpainted(paint("ok", "1;31")) == "ok"
    assert paint("ok", "") == paint("ok", "32", False) == "ok" and paint("", "32") == ""


def test_wide_characters_take_two_columns() -> None:
    assert columns("损失") == 4 and columns("e\u0301") == 1 and columns("a\u200b") == 1
    assert cut("损失损失", 5) == "损失…" and cut("abc", 3) == "abc" and cut("abcd", 3, "~") == "ab~"


def test_a_line_is_made_to_fit() -> None:
    """Painted where it is short enough, plain where it is cut; always of the width."""
    assert fit(paint("ab", "1"), 4) == "\x1b[1mab\x1b[0m  "
    assert fit(paint("abcdef", "1"), 4) == "abc…" and columns(fit("损失损失", 4)) == 4


def test_a_word_without_spaces_is_broken() -> None:
    """Nothing is lost where there is no space to break at."""
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]


# -- numbers in words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.34567, "2.346"), (16384, "16.38k"), (999, "999"), (3e-5, "3e-05"), (1.5e9, "1.5G"), (float("nan"), "nan"),
     (-2_000_000, "-2M"), (2**4000, "inf"), (True, "True"), (0.0, "0")],
)  # fmt: skip
def test_numbers_in_four_digits(value: float, text: str) -> None:
    """Values are short and tell what matters."""
    assert display.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0712, "71ms"),
        (4.21, "4.2s"),
        (59.7, "1m00s"),
        (125, "2m05s"),
        (8100, "2h15m"),
        (3 * 86400 + 4 * 3600, "3d04h"),
    ],
)
def test_durations_in_two_units(seconds: float, text: str) -> None:
    """Durations read as people say them."""
    assert display.duration(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 B"), (1023, "1023 B"), (3_565_158, "3.4 MiB"), (2**60, "1024.0 PiB")]
)
def test_bytes_in_one_unit(amount: int, text: str) -> None:
    """Sizes are in powers of 1024."""
    assert display.size(amount) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0ns"), (1.23e-6, "1.23µs"), (0.0456, "45.6ms"), (7.89, "7.89s"), (125.0, "2m05s"), (8100.0, "2h15m")],
)
def test_short_durations_have_three_digits(seconds: float, text: str) -> None:
    assert display.short_duration(seconds) == text


def test_numbers_of_a_steady_width() -> None:
    """Numbers, amounts and times keep their width from the smallest to the largest usual value."""
    assert [display.decimals(value) for value in (0.001, 2.3456, 99.5, 1e5, 1e-9)] == [
        "0.0010", "2.3456", "99.5000", "1.0e+05", "1.0e-09",
    ]  # fmt: skip
    assert [display.amount(value) for value in (0, 12.34, 950, 999.96, 125_300, 1.25e6, 3e9, 2e12, 5e15)] == [
        "0.0", "12.3", "950", "1.0k", "125.3k", "1.2M", "3.0B", "2.0T", "5.0e+15",
    ]  # fmt: skip
    assert [display.milliseconds(value) for value in (0.00156, 0.0156, 0.156, 15.6)] == ["1.56", "15.6", "156", "15600"]
    assert [display.time_left(value) for value in (0, 42.4, 3599, 8100, 95 * 3600, 99 * 3600, 1e7)] == [
        "00m00s", "00m42s", "59m59s", "02h15m", "95h00m", "04d03h", "115d17h",
    ]  # fmt: skip
