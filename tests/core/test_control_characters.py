"""Characters that steer a terminal, made visible."""

from __future__ import annotations

import pytest

from chiplog.core.control_characters import clean


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc\x00", "a\\x0ab\\x09c\\x00"),
        ("\x7f\x9b31m", "\\x7f\\x9b31m"),  # the second is an escape sequence in one character
        ("user\u202egnp.exe", "user\\u202egnp.exe"),
        ("\u2066a\u2069\u2028\u061c", "\\u2066a\\u2069\\u2028\\u061c"),
        ("\ud83d", "\\ud83d"),  # half a character, which no terminal's encoding can write
    ],
)
def test_what_steers_a_terminal_is_escaped(text: str, shown: str) -> None:
    """Control characters, direction marks and lone surrogates; everything else in the text stays."""
    assert clean(text) == shown
    assert clean(shown) == shown
    assert shown.isascii()


@pytest.mark.parametrize("text", ["", "loss", "größe ∇ 損失 🚀", "a\u00a0b", "zero\u200bwidth", "\ue000"])
def test_all_other_text_stays(text: str) -> None:
    """Also characters that Python does not call printable."""
    assert clean(text) == text
