"""Missing records in words."""

from __future__ import annotations

from collections.abc import Sequence

from chiplog.core import display


def seq_ranges(ranges: Sequence[tuple[int, int]], verb: str, most: int = 10) -> str:
    """How many records the ranges cover, and which: 5 records are lost: seq 3, 17-20."""
    total = sum(last - first + 1 for first, last in ranges)
    listed = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges[:most])
    more = f" and {len(ranges) - most} more ranges" if len(ranges) > most else ""
    return f"{display.count(total)} records {verb}: seq {listed}{more}"
