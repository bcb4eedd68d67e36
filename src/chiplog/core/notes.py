"""Words to the person at the terminal: one line each on stderr, never an exception, never twice the same."""

from __future__ import annotations

import sys

from chiplog.core.texts import Pattern

_said: set[str] = set()
_CONTROL = Pattern(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def say(text: str) -> None:
    """Print one line; a closed or broken stderr is nobody's problem."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"chiplog: {clean(text)}\n")
            sys.stderr.flush()
    except Exception:  # stderr may be any object
        pass


def once(key: str, text: str) -> None:
    """As `say`, but only the first time for this key."""
    if first(key):
        say(text)


def first(key: str) -> bool:
    """Whether this is the first time for this key; for those who say it in another place."""
    if key in _said:
        return False
    if len(_said) > 10_000:
        _said.clear()
    _said.add(key)
    return True


def forget() -> None:
    """Let everything be said once more."""
    _said.clear()


def clean(text: str) -> str:
    """Run-derived text for a terminal: control characters, bidi controls and lone surrogates as visible escapes."""
    if text.isprintable():  # none of those; compiling the pattern takes a millisecond, in every forked child anew
        return text
    return _CONTROL.compiled.sub(
        lambda match: f"\\x{ord(match[0]):02x}" if ord(match[0]) < 256 else f"\\u{ord(match[0]):04x}", text
    )
