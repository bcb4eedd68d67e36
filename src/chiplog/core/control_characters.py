"""Characters that steer a terminal, made visible."""

from __future__ import annotations

import re

_CONTROL = r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


def clean(text: str) -> str:
    """Run-derived text for a terminal: control characters, bidi controls and lone surrogates as visible escapes."""
    if text.isprintable():  # the usual case; compiling the pattern takes a millisecond, again in every forked child
        return text
    return re.sub(_CONTROL, _escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
