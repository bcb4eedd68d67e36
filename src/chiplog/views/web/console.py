"""What a run has printed, for the page: colours are left in it, and no other escape."""

from __future__ import annotations

from itertools import islice
from typing import Any

from chiplog.store.console import Line
from chiplog.views import ansi
from chiplog.views.folio import Folio


def since(folio: Folio, have: int) -> dict[str, Any]:
    """The lines that have ended since a page had so many of them, and those that are not ended."""
    with folio.lock:
        folio.refresh()
        printed = folio.console
        first = max(min(have, printed.count), printed.count - len(printed.ended))
        fresh = list(islice(reversed(printed.ended), printed.count - first))[::-1]
        unended = printed.open
        ranks = len({line.rank for line in printed}) > 1
        count = printed.count
    if ranks:
        fresh.sort(key=lambda line: line.time)
    return {
        "first": first,  # more than the page has, if it was too slow
        "count": count,
        "lines": [_line(line, ranks) for line in fresh],
        "open": [_line(line, ranks) for line in unended],
    }


def _line(line: Line, ranks: bool) -> list[Any]:
    """Milliseconds, whether it went to stderr, and the text."""
    rank = f"[{line.rank}] " if ranks else ""
    return [line.time // 1_000_000, line.stream == "stderr", rank + ansi.coloured(line.text)]
