"""What `chiplog tail --console` shows: the lines that a run has printed, and prints."""

from __future__ import annotations

import sys
from argparse import Namespace

from chiplog.commands.tail import LOOKS, WIPE, Pipe, near_end
from chiplog.core.notes import clean
from chiplog.store import layout
from chiplog.store.console import Line, Printed
from chiplog.store.reader import Stored
from chiplog.store.tail import Tail
from chiplog.views import ansi
from chiplog.views.table import cut


def follow(stored: Stored, args: Namespace) -> int:
    """The last lines, then those that come until the run ends; a line that is not ended is seen on a terminal only."""
    out = Pipe(sys.stdout)
    several = len({segment.rank for segment in layout.segments(stored.path)}) > 1

    def say(line: Line, *, ended: bool = True) -> str:
        rank = f"[{line.rank}] " if several else ""
        if not ended:
            return cut(rank + ansi.plain(line.text), args.screen.width - 1)
        return rank + (ansi.coloured if args.screen.colour else ansi.plain)(line.text) + "\n"

    printed, tail = _newest(stored, args.n)
    first = sorted(printed.ended, key=lambda line: line.time) if several else list(printed.ended)
    fresh = first[max(0, len(first) - args.n) :]
    printed.ended.clear()
    for batch in stored.batches(tail) if not args.once else ([],):
        for record in batch:
            printed.feed(record, tail.source.rank, tail.source.attempt)
            fresh += printed.ended
            printed.ended.clear()
        text = "".join(map(say, fresh))
        fresh = []
        if out.terminal:
            text = WIPE + text + "".join(say(line, ended=False) for line in printed.open[-1:])
        if text:
            out.write(text)
            out.flush()
        if out.broken:
            raise BrokenPipeError
    out.end("".join(map(say, printed.open)))
    if not len(printed):
        out.end("nothing was captured: init(capture=True) or CHIPLOG_CAPTURE=1 keeps what is printed\n")
    if (state := stored.state) != "running":
        out.end(f"== {clean(state)}\n")
    return 0


def _newest(stored: Stored, wanted: int) -> tuple[Printed, Tail]:
    """The last lines there are, and the tail that goes on behind them."""
    for look in (*LOOKS, None):
        tail = Tail(stored.path, positions=None if look is None else near_end(stored.path, look))
        printed = Printed()
        while batch := tail.read():
            for record in batch:
                printed.feed(record, tail.source.rank, tail.source.attempt)
        if printed.count >= wanted:
            break
    return printed, tail
