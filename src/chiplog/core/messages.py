"""Messages on stderr, one line each; printing never raises, and `once` does not repeat."""

from __future__ import annotations

import sys

from chiplog.core import progress_bars
from chiplog.core.values.text import Pattern

_reported: set[str] = set()
_CONTROL = Pattern(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


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


def clean(text: str) -> str:
    """Run-derived text for a terminal: control characters, bidi controls and lone surrogates as visible escapes."""
    if text.isprintable():  # the usual case; compiling the pattern takes a millisecond, again in every forked child
        return text
    return _CONTROL.compiled.sub(
        lambda match: f"\\x{ord(match[0]):02x}" if ord(match[0]) < 256 else f"\\u{ord(match[0]):04x}", text
    )
