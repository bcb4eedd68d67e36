"""Messages on stderr, one line each; printing never raises, and `once` does not repeat."""

from __future__ import annotations

import sys

from chiplog.core import progress_bars
from chiplog.core.control_characters import clean as clean

_reported: set[str] = set()


def say(text: str) -> None:
    """Print one line; ignore a closed or broken stderr."""
    try:
        if sys.stderr is not None:
            progress_bars.write(sys.stderr, f"chiplog: {clean(text)}\n")
    except Exception:  # stderr may be any object
        pass


def once(key: str, text: str) -> None:
    """Print one line, but only the first time for this key."""
    if first(key):
        say(text)


def first(key: str) -> bool:
    """True the first time a key is seen, for callers that report through another channel."""
    if key in _reported:
        return False
    if len(_reported) > 10_000:
        _reported.clear()
    _reported.add(key)
    return True


def first_reason(run: object, sink: str, reason: str) -> bool:
    """True the first time a sink of a run (its directory) reports this reason for a failure."""
    return first(f"reason {run} {sink} {reason}")


def first_missing(run: object, sink: str) -> bool:
    """True the first time a sink of a run (its directory) is reported as incomplete at the end."""
    return first(f"missing {run} {sink}")


def forget() -> None:
    """Forget every key, so that each message may be printed again."""
    _reported.clear()
