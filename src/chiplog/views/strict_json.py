"""Plain data as JSON that every parser accepts."""

from __future__ import annotations

from typing import Any

import msgspec

from chiplog.core import records
from chiplog.core.values import convert
from chiplog.core.values.text import Pattern

_STEERING = Pattern(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def encode(data: Any) -> bytes:
    """Encode as strict JSON; numbers that are not finite become strings."""
    plain = records.fields(records.Event(0, 0, "", {"data": data}))["data"]["data"]
    try:
        return msgspec.json.encode(plain)
    except UnicodeEncodeError:  # a lone surrogate, as in the name of a file that is not UTF-8
        return msgspec.json.encode(convert.plain(plain))


def pretty(data: Any) -> str:
    """Strict JSON for people: indented."""
    return escaped(msgspec.json.format(encode(data), indent=2)).decode()


def escaped(data: bytes) -> bytes:
    """JSON with the characters that steer a terminal or turn text around as escapes; the same data to every parser."""
    if data.isascii() and b"\x7f" not in data:
        return data
    text = data.decode("utf-8", "surrogatepass")
    return _STEERING.compiled.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode()
