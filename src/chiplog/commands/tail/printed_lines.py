"""`chiplog tail --console`: the lines that a run has printed, and the ones it prints."""

from __future__ import annotations

from argparse import Namespace

from chiplog.commands.tail.output import WIPE, Output
from chiplog.commands.tail.rows import SEARCHED
from chiplog.core.display import Screen, cut
from chiplog.store import layout
from chiplog.store.journal.tail import Tail, near_end
from chiplog.store.printed_lines import Printed, PrintedLine
from chiplog.store.reader import Stored
from chiplog.views import ansi

NOTHING = "nothing was captured: use init(capture=True) or CHIPLOG_CAPTURE=1 to record what a run prints\n"


def follow(stored: Stored, out: Output, args: Namespace) -> None:
    """Print the last lines, then new ones until the run ends; an unfinished line is shown only on a terminal."""
    several = len({segment.rank for segment in layout.segments(stored.path)}) > 1
    printed, tail = _newest(stored, args.n)
    ended = sorted(printed.ended, key=lambda line: line.time) if several else list(printed.ended)
    fresh = ended[max(0, len(ended) - args.n) :]
    printed.ended.clear()
    for batch in stored.batches(tail) if not args.once else ([],):
        for record in batch:
            printed.feed(record, tail.source.rank, tail.source.attempt)
            fresh += printed.ended
            printed.ended.clear()
        text = "".join(_whole(line, args.screen, several) for line in fresh)
        fresh = []
        if out.terminal:
            text = WIPE + text + "".join(_unfinished(line, args.screen, several) for line in printed.open[-1:])
        if text:
            out.write(text)
            out.flush()
        out.check()
    out.end("".join(_whole(line, args.screen, several) for line in printed.open))
    if not len(printed):
        out.end(NOTHING)


def _newest(stored: Stored, count: int) -> tuple[Printed, Tail]:
    """The last lines so far, and a tail that continues after them."""
    for size in SEARCHED:
        tail = Tail(stored.path, positions=None if size is None else near_end(stored.path, size))
        printed = Printed()
        while batch := tail.read():
            for record in batch:
                printed.feed(record, tail.source.rank, tail.source.attempt)
        if printed.count >= count:
            break
    return printed, tail


def _whole(line: PrintedLine, screen: Screen, several: bool) -> str:
    return _rank(line, several) + (ansi.coloured if screen.colour else ansi.plain)(line.text) + "\n"


def _unfinished(line: PrintedLine, screen: Screen, several: bool) -> str:
    return cut(_rank(line, several) + ansi.plain(line.text), screen.width - 1)


def _rank(line: PrintedLine, several: bool) -> str:
    return f"[{line.rank}] " if several else ""
