"""Arguments that several verbs have in common, and their types."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError


def add_run(parser: ArgumentParser) -> None:
    """Add the run that a verb is about."""
    parser.add_argument("run", nargs="?", default="latest", metavar="RUN", help="the run (default: latest)")


def whole_number(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def words(text: str) -> list[str]:
    """The words of a list separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]
