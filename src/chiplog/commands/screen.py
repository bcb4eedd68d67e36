"""What the terminal can show."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import NamedTuple, TextIO

STATES = {"running": "36", "finished": "32", "failed": "31", "killed": "31", "lost": "33", "interrupted": "33"}


class Screen(NamedTuple):
    width: int
    height: int
    colour: bool
    ascii: bool  # it shows nothing but ASCII


def look(stream: TextIO, environ: Mapping[str, str]) -> Screen:
    """Colour only on a terminal, and never with NO_COLOR; 100 columns where neither it nor COLUMNS says how many."""
    size = shutil.get_terminal_size((100, 30))
    colour = stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    encoding = (getattr(stream, "encoding", None) or "ascii").lower()
    return Screen(max(40, size.columns), max(10, size.lines), colour, not encoding.startswith("utf"))
