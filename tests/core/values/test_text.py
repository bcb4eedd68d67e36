"""Text that can be stored: cut, valid UTF-8, and exceptions on one line."""

from __future__ import annotations

from chiplog.core.values.text import Pattern, cut, reason, words


def test_long_text_is_cut_and_the_cut_is_marked() -> None:
    """The mark says how many characters are missing; what would not be shorter with it is left whole."""
    assert cut("x" * 100, 4) == "xxxx … [96 characters cut]"
    assert cut("x" * 10, 4) == "x" * 10 and cut("short", 5) == "short"


def test_lone_surrogates_become_valid_utf8() -> None:
    """They are escaped, so that the string can be encoded."""
    assert cut("a\udc80b") == "a\\udc80b"


def test_an_exception_is_one_line_with_or_without_its_type() -> None:
    """Line breaks become spaces; an empty message leaves the type."""
    error = ValueError("first\n  second")
    assert words(error) == "ValueError: first second" and reason(error) == "first second"
    assert words(KeyError()) == reason(KeyError()) == "KeyError"


def test_an_exception_whose_message_fails_still_has_a_type() -> None:
    """`__str__` of a foreign exception may raise."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert words(Broken()) == "Broken"


def test_a_pattern_is_compiled_once() -> None:
    """On first use."""
    pattern = Pattern(r"\d+")
    assert pattern.compiled.findall("a1b22") == ["1", "22"] and pattern.compiled is pattern.compiled
