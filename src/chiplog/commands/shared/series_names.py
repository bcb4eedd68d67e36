"""Series by name or pattern, as users type them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from chiplog.core.errors import ChiplogError


class UnknownSeries(ChiplogError, KeyError):
    """No series has this name."""

    __str__ = Exception.__str__


def match(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The matching names, each once; a pattern without a match is an error that lists similar names."""
    matches: dict[str, None] = {}
    for pattern in patterns:
        matching = [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise UnknownSeries(_unknown(pattern, names))
        matches.update(dict.fromkeys(matching))
    return list(matches)


def some(names: Sequence[str], most: int = 12) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _unknown(pattern: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(pattern, names, 3) or [name for name in names if pattern.lower() in name.lower()]
    hint = f"did you mean {' or '.join(map(repr, near[:3]))}? " if near else ""
    return f"no series {pattern!r}; {hint}there are: {some(names) or 'none'}"
