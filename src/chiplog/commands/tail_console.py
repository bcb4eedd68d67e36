"""`chiplog tail --console`: the lines that a run printed, and the ones it prints."""

from __future__ import annotations

import sys
from argparse import Namespace

from chiplog.commands.tail import LOOKS, WIPE, Pipe, near_end
from chiplog.core.display import cut
from chiplog.core.messages import clean
from chiplog.store import layout
from chiplog.store.journal.tail import Tail
from chiplog.store.printed_lines import Printed, PrintedLine
from chiplog.store.reader import Stored
from chiplog.views import ansi


def follow(stored: Stored, args: Namespace) -> int:
    """Print the last lines, then new ones until the run ends; an unfinished line is shown only on a terminal."""
    out = Pipe(sys.stdout)
    several = len({segment.rank for segment in layout.segments(stored.path)}) > 1

    def say(line: PrintedLine, *, ended: bool = True) -> str:
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
        out.end("nothing was captured: use init(capture=True) or CHIPLOG_CAPTURE=1 to record what a run prints\n")
    if (state := stored.state) != "running":
        out.end(f"== {clean(state)}\n")
    return 0


def _newest(stored: Stored, wanted: int) -> tuple[Printed, Tail]:
    """The last lines so far, and a tail that continues after them."""
    for look in (*LOOKS, None):
        tail = Tail(stored.path, positions=None if look is None else near_end(stored.path, look))
        printed = Printed()
        while batch := tail.read():
            for record in batch:
                printed.feed(record, tail.source.rank, tail.source.attempt)
        if printed.count >= wanted:
            break
    return printed, tail
