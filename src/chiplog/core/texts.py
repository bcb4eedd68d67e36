"""Texts as they may be kept: not too long, and nothing that UTF-8 cannot say."""

from __future__ import annotations

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
