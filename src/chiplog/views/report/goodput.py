"""Where the time of a run and of a typical step went, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chiplog.core import display
from chiplog.core.display import paint, wrap

if TYPE_CHECKING:
    from chiplog.metrics.goodput import Ledger
    from chiplog.metrics.waterfall import Share

# The character and the colour of each kind of time, distinct without colour too.
LOOKS = {
    "step": ("█", "32"),
    "data": ("▒", "33"),
    "lost": ("x", "31"),
    "warmup": ("░", "36"),
    "compile": ("▓", "36"),
    "eval": ("=", "34"),
    "checkpoint": ("+", "35"),
    "init": ("-", "2"),
    "idle": ("·", "2"),
    "down": ("_", "2"),
}
WIDEST = 60  # columns of the bar
LEAST = 0.001  # of the time: less is not listed


def text(ledger: Ledger, *, width: int, colour: bool) -> str:
    """The productive share, a bar, and the time of each kind."""
    shares = {kind: spent / (ledger.wall or 1.0) for kind, spent in ledger.seconds.items()}
    columns = max(10, min(WIDEST, width - 2))
    signs = [(kind, round(min(1.0, max(0.0, share)) * columns)) for kind, share in shares.items()]  # clocks may lie
    bar = "".join(paint(LOOKS[kind][0] * count, LOOKS[kind][1], colour) for kind, count in signs if count)
    kinds = [
        f"{LOOKS[kind][0]} {kind} {display.duration(ledger.seconds[kind])} ({share:.1%})"
        for kind, share in shares.items()
        if share >= LEAST
    ]
    head = f"{ledger.goodput:.1%} of {display.duration(ledger.wall)} went into productive steps"
    return "\n".join(f"  {line}" for line in (head, bar, *wrap("   ".join(kinds), width - 2)))


def fall(parts: Sequence[Share], *, width: int) -> str:
    """A typical step in its parts, each with its source."""
    step = sum(part.seconds for part in parts)
    shares = [
        f"{part.name} {display.duration(part.seconds)} ({part.seconds / step:.1%}, {part.source})" for part in parts
    ]
    lines = wrap(f"typical step ({display.duration(step)}): " + "   ".join(shares), width - 2)
    return "\n".join(f"  {line}" for line in lines)
