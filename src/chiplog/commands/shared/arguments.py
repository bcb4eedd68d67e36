"""Arguments that several verbs have in common, and their types."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable


def add_run(parser: ArgumentParser) -> None:
    """Add the run that a verb is about."""
    parser.add_argument("run", nargs="?", default="latest", metavar="RUN", help="the run (default: latest)")


def whole_number(text: str) -> int:
    if not text.isdecimal():
        negative = text[:1] == "-" and text[1:].isdecimal()
        raise ArgumentTypeError(f"{text!r} is negative" if negative else f"{text!r} is not a whole number")
    return int(text)


def port(text: str) -> int:
    if whole_number(text) > 65535:
        raise ArgumentTypeError(f"{text!r} is not a port: use 1 to 65535, or 0 for any free one")
    return int(text)


def one_of(*choices: str) -> Callable[[str], list[str]]:
    """The type of a list separated by commas, of these words only."""

    def chosen(text: str) -> list[str]:
        listed = words(text)
        unknown = [word for word in listed if word not in choices]
        if unknown or not listed:
            raise ArgumentTypeError(f"{', '.join(unknown) or text!r} is not one of: {', '.join(choices)}")
        return listed

    return chosen


def words(text: str) -> list[str]:
    """The words of a list separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]
