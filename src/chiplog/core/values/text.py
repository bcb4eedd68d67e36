"""Texts as they may be kept: not too long, and nothing that UTF-8 cannot say."""

from __future__ import annotations

import re

LONGEST = 1 << 20  # characters
_MARK = " … [{:,} characters cut]"


def cut(string: str, longest: int = LONGEST) -> str:
    """A string of at most `longest` characters, the cut marked, with lone surrogates escaped."""
    if len(string) > longest:
        string = string[:longest] + _MARK.format(len(string) - longest)
    try:
        string.encode()
    except UnicodeEncodeError:
        string = string.encode("utf-8", "backslashreplace").decode()
    return string


def words(error: BaseException) -> str:
    """An exception in one line, with its type."""
    message = _message(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def reason(error: BaseException) -> str:
    """What an exception says, in one line; its type where it says nothing."""
    return _message(error) or type(error).__name__


def _message(error: BaseException) -> str:
    """In one line, so that who searches a log for it finds all of it; empty for one whose `__str__` fails."""
    try:
        return cut(" ".join(str(error).split()), 2000)
    except Exception:
        return ""


class Aside(str):
    """Text that only says what the journal has already; whoever keeps what is printed need not keep it again."""

    __slots__ = ()


class Pattern:
    """A regular expression that is compiled when it is first used, not when its module is loaded. Without a lock, which
    a fork could leave taken: at worst two threads compile it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self._text)
        return self._compiled
