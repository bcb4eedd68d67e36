"""A histogram as one line of characters; needs no package."""

from __future__ import annotations

from collections.abc import Sequence


def bar_line(counts: Sequence[float], width: int, *, ascii: bool = False) -> str:
    """The counts as bars; if there are more than `width`, neighbours are added up. An empty bin is blank."""
    signs = ".:-=+*#@" if ascii else "▁▂▃▄▅▆▇█"
    width = max(1, min(width, len(counts)))
    joined = [
        sum(counts[at * len(counts) // width : (at + 1) * len(counts) // width]) for at in range(width if counts else 0)
    ]
    most = max(joined, default=0.0)
    if not 0 < most < float("inf"):
        return ""
    return "".join(signs[min(7, int(count / most * 8))] if count > 0 else " " for count in joined)
