"""The types of arguments."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

import pytest

from chiplog.commands.shared.arguments import add_run, whole_number, words


def test_a_run_is_the_newest_unless_named() -> None:
    """Every verb about one run may be called without it."""
    parser = ArgumentParser()
    add_run(parser)
    assert parser.parse_args([]).run == "latest"
    assert parser.parse_args(["first"]).run == "first"


@pytest.mark.parametrize(
    ("text", "reason"), [("-1", "negative"), *((text, "not a whole number") for text in ("1.5", "ten", ""))]
)
def test_a_whole_number_has_digits_only(text: str, reason: str) -> None:
    """Anything else is a usage error that quotes it."""
    assert whole_number("12") == 12
    with pytest.raises(ArgumentTypeError, match=f"^{text!r} is {reason}$"):
        whole_number(text)


def test_words_are_separated_by_commas() -> None:
    """Spaces around them and empty ones do not count."""
    assert words("png, svg,,") == ["png", "svg"]
