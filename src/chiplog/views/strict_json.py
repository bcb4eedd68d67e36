"""Plain data as JSON that every parser accepts."""

from __future__ import annotations

from typing import Any

import msgspec

from chiplog.core import records


def encode(data: Any) -> bytes:
    """Encode as strict JSON; numbers that are not finite become strings."""
    plain = records.fields(records.Event(0, 0, "", {"data": data}))["data"]["data"]
    return msgspec.json.encode(plain)


def pretty(data: Any) -> str:
    """Strict JSON for people: indented."""
    return msgspec.json.format(encode(data), indent=2).decode()
