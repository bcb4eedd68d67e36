"""Runs made into parts."""

from __future__ import annotations

from pathlib import Path

from chiplog.store import layout
from chiplog.store.parts.compaction import compact


def compact_all(run: Path) -> int:
    """How many segments became parts."""
    return sum(compact(run, segment) for segment in layout.segments(run))
