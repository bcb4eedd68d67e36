"""Nested mappings as flat pairs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any


def flatten(data: Mapping[str, Any], separator: str = "/", *, deepest: int = sys.maxsize) -> Iterator[tuple[str, Any]]:
    """Pairs of a joined name and a value, in order; an empty mapping, or one below `deepest` levels, is a value.

    >>> dict(flatten({"model": {"dim": 64, "extra": {}}, "lr": 0.1}))
    {'model/dim': 64, 'model/extra': {}, 'lr': 0.1}
    """
    waiting = [(str(key), value, 1) for key, value in reversed(list(data.items()))]
    while waiting:
        name, value, depth = waiting.pop()
        if isinstance(value, Mapping) and value and depth <= deepest:
            inside = reversed(list(value.items()))
            waiting.extend((f"{name}{separator}{key}", item, depth + 1) for key, item in inside)
        else:
            yield name, value
