"""Printed text, safe to show again."""

from __future__ import annotations

import re
import time

import pytest

from chiplog.views import ansi

HOSTILE = [
    "\x1b]0;title\x07", "\x1b]52;c;ZXZpbA==\x07", "\x1b]8;;http://x\x1b\\link", "\x1b[2J", "\x1b[1;1H", "\x1bP1$r\x1b\\", "\x9b31m", "\x9b2J",
    "\x9d0;title\x9c", "\x1bc", "\x1b(0", "\x1b[?1049h", "\x1b[6n", "\x1b[>c", "\u202e", "\u2066", "\r over", "\x08\x08", "\x00", "\x7f",
    "\x1b", "\x1b[", "\x1b[31", "\x1b]0;never ended", "\x1b_apc\x1b\\", "\x1b^pm\x1b\\", "\x1b[31;1p", "\udc9b31m", "\x1b[" + "1;" * 100 + "m",
]  # fmt: skip


@pytest.mark.parametrize("evil", HOSTILE)
def test_no_escape_is_left_but_colour(evil: str) -> None:
    """Whatever a terminal obeys is gone or visible, inside a line, at its end, and between colours."""
    for text in (evil, f"before{evil}after", f"\x1b[31mred{evil}\x1b[0m", evil * 3):
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", ansi.plain(text))
        bare = re.sub(r"\x1b\[[0-9;:]{0,40}m", "", ansi.coloured(text))
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", bare)


def test_colours_stay_and_end_with_the_line() -> None:
    """As they were printed, in any of their forms; and tabs are where they would be."""
    text = "\x1b[1;31mred\x1b[38;5;12m\x1b[38:2::1:2:3m x\tend"
    assert ansi.coloured(text) == "\x1b[1;31mred\x1b[38;5;12m\x1b[38:2::1:2:3m x      end\x1b[0m"
    assert ansi.plain("\x1b[1;31mred\x1b[0m and more") == "red and more"
    assert ansi.coloured("plain") == "plain"


def test_a_line_of_escapes_takes_linear_time() -> None:
    """Eight times the text, and not sixty-four times the time."""

    def took(text: str) -> float:
        begin = time.process_time()
        for _ in range(5):
            ansi.coloured(text)
        return time.process_time() - begin

    for piece in ("\x1b", "\x1b[", "\x1b[1;", "\x1b]", "\x9b1", "\x1b[ "):
        assert took(piece * 40_000) < 30 * took(piece * 5_000) + 0.05
