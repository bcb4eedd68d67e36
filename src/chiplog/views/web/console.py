"""What a run printed, for the page: keeps colours, and removes all other escape sequences."""

from __future__ import annotations

from itertools import islice

from chiplog.store.contents.contents import Contents
from chiplog.store.printed_lines import PrintedLine
from chiplog.views import ansi


def since(contents: Contents, have: int) -> dict[str, object]:
    """The finished lines that a page does not have yet, and the unfinished ones."""
    with contents.lock:
        contents.refresh()
        printed = contents.console
        first = max(min(have, printed.count), printed.count - len(printed.ended))
        fresh = list(islice(reversed(printed.ended), printed.count - first))[::-1]
        unfinished = printed.open
        ranks = len({line.rank for line in printed}) > 1
        count = printed.count
    if ranks:
        fresh.sort(key=lambda line: line.time)
    return {
        "first": first,  # may be beyond what the page has, if it was too slow
        "count": count,
        "lines": [_line(line, ranks) for line in fresh],
        "open": [_line(line, ranks) for line in unfinished],
    }


def _line(line: PrintedLine, ranks: bool) -> list[object]:
    """Milliseconds, whether it went to stderr, and the text."""
    rank = f"[{line.rank}] " if ranks else ""
    return [line.time // 1_000_000, line.stream == "stderr", rank + ansi.coloured(line.text)]
