"""Series by name or pattern, as users type them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from chiplog.core.errors import UnknownSeries
from chiplog.core.suggestions import did_you_mean, some


def match(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The matching names, each once: `train/loss`, `train/*`, or `loss` for every name that ends in that word.

    A pattern without a match is an error that lists similar names.
    """
    matches: dict[str, None] = {}
    for pattern in patterns:
        matching = [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]
        matching = matching or [name for name in names if ends_in(name, pattern)]
        if not matching:
            if not names:
                raise UnknownSeries(f"no series {pattern!r}: no numbers have been logged in this run")
            hint = did_you_mean(pattern, names)
            raise UnknownSeries(f"no series {pattern!r}; {hint}available: {some(names)}")
        matches.update(dict.fromkeys(matching))
    return list(matches)


def ends_in(name: str, word: str) -> bool:
    """Whether the last words of a name are these: `train/loss` and `val_loss` end in `loss`."""
    return name.endswith(tuple(f"{sign}{word}" for sign in "/_.-"))
