"""The tabs of a run on the screen, in their order, and the keys that scroll."""

from __future__ import annotations

TABS = ("charts", "system", "ranks", "alerts", "samples", "console", "overview")


def rows_moved(key: str, page: int) -> int:
    """How many rows a key moves down, on a page of so many rows; 0 for other keys."""
    far = 1 << 30
    moves = {"up": -1, "k": -1, "down": 1, "j": 1, "home": -far, "end": far, "pgup": -page, "pgdn": page}
    return moves.get(key, 0)
