"""Where the time of a run went, and that of a step, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chiplog.views import units
from chiplog.views.table import paint, wrap

if TYPE_CHECKING:
    from chiplog.metrics.goodput import Ledger
    from chiplog.metrics.waterfall import Share

# The sign and the colour of a kind of time: told apart without colour too.
LOOKS = {
    "step": ("█", "32"),
    "data": ("▒", "33"),
    "lost": ("x", "31"),
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
    """The share that counted, the bar, and every kind with its time."""
    shares = {kind: spent / ledger.wall for kind, spent in ledger.seconds.items()}
    columns = max(10, min(WIDEST, width - 2))
    signs = [(kind, round(share * columns)) for kind, share in shares.items()]
    bar = "".join(paint(LOOKS[kind][0] * count, LOOKS[kind][1], colour) for kind, count in signs if count)
    kinds = [
        f"{LOOKS[kind][0]} {kind} {units.duration(ledger.seconds[kind])} ({share:.1%})"
        for kind, share in shares.items()
        if share >= LEAST
    ]
    head = f"{ledger.goodput:.1%} of {units.duration(ledger.wall)} went into steps that counted"
    return "\n".join(f"  {line}" for line in (head, bar, *wrap("   ".join(kinds), width - 2)))


def fall(parts: Sequence[Share], *, width: int) -> str:
    """A usual step in its parts, each with how it is known."""
    step = sum(part.seconds for part in parts)
    said = [f"{part.name} {units.duration(part.seconds)} ({part.seconds / step:.1%}, {part.source})" for part in parts]
    lines = wrap(f"a usual step of {units.duration(step)}: " + "   ".join(said), width - 2)
    return "\n".join(f"  {line}" for line in lines)
