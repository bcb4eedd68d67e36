"""Text that can be stored: not too long, and valid UTF-8."""

from __future__ import annotations

import re

LONGEST = 1 << 20  # characters
_MARK = " … [{:,} characters cut]"


def cut(string: str, longest: int = LONGEST) -> str:
    """A string cut to `longest` characters, with a mark, and with lone surrogates escaped."""
    if len(string) > longest + len(_MARK):  # less would not be shorter
        string = string[:longest] + _MARK.format(len(string) - longest)
    try:
        string.encode()
    except UnicodeEncodeError:
        string = string.encode("utf-8", "backslashreplace").decode()
    return string


def words(error: BaseException) -> str:
    """An exception on one line, with its type."""
    message = _message(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def reason(error: BaseException) -> str:
    """The message of an exception on one line; its type if it has no message."""
    return _message(error) or type(error).__name__


def _message(error: BaseException) -> str:
    """On one line, so that searching a log finds all of it; empty if `__str__` fails."""
    try:
        return cut(" ".join(str(error).split()), 2000)
    except Exception:
        return ""


class Aside(str):
    """Text that repeats what the journal holds; console capture skips it."""

    __slots__ = ()


class Pattern:
    """A regular expression that is compiled on first use, not at import.

    It has no lock, which a fork could leave locked; at worst, two threads compile it.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self._text)
        return self._compiled
