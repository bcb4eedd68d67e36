"""`chiplog tail`: follow a run, in the format of the console sink."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, cast

from chiplog.core import records
from chiplog.core.messages import clean
from chiplog.core.records import AnyRecord
from chiplog.sinks.console.sink import RATE, Console
from chiplog.store import layout
from chiplog.store.journal.lines import Scanner
from chiplog.store.journal.tail import Positions, Tail, stream_key
from chiplog.store.reader import Stored
from chiplog.store.runs import find, manifest

LOOKS = (64 << 10, 4 << 20)  # bytes from the end that are searched first for the last records
WIPE = "\r\x1b[K"
BEGINNING = 200  # records that are searched for the planned length of the run


def run(args: Namespace) -> int:
    stored = Stored(find.find(args.run, args.root))
    if args.console:
        from chiplog.commands.tail_console import follow

        return follow(stored, args)
    out = Pipe(sys.stdout)
    rate = None if args.once else max(RATE, args.n)
    width = None if out.terminal else args.screen.width
    config = manifest.load(stored.path).config
    console = Console(cast(TextIO, out), environ=args.environ, width=width, rate=rate, config=config)
    newest, tail = _newest(stored.path, args.n)
    try:
        console.write([*_plan(stored.path), *newest])
        for batch in stored.batches(tail) if not args.once else ([],):
            console.write(batch)
            if out.broken:
                raise BrokenPipeError
    finally:
        out.end("")
    if (state := stored.state) != "running":
        out.end(f"== {clean(state)}\n")
    return 0


def _newest(path: Path, wanted: int) -> tuple[list[AnyRecord], Tail]:
    """The last records that the console shows, and a tail that continues after them."""
    main = min((segment.rank for segment in layout.segments(path)), default=0)
    for look in (*LOOKS, None):
        tail = Tail(path, rank=main, positions=None if look is None else near_end(path, look))
        found = [record for record in _all(tail) if _has_line(record)]
        if len(found) >= wanted:
            break
    found.sort(key=lambda record: record.time)
    return found[max(0, len(found) - wanted) :], tail


def near_end(path: Path, look: int) -> Positions:
    """Positions at most `look` bytes before the end of each journal; a partial first line is skipped."""
    found: Positions = {}
    for segment in layout.segments(path):
        try:
            size = (path / layout.JOURNAL / segment.filename).stat().st_size
        except OSError:
            size = 0  # compressed, so it no longer grows
        found[stream_key(segment)] = segment.number, max(0, size - look), -1
    return found


def _all(tail: Tail) -> Iterator[AnyRecord]:
    while batch := tail.read():
        yield from batch


def _has_line(record: AnyRecord) -> bool:
    return isinstance(record, (records.Step, records.Eval, records.Alert)) or (
        isinstance(record, records.Event) and record.name == "dataset"
    )


def _plan(path: Path) -> list[AnyRecord]:
    """The length that the newest attempt planned at its start."""
    first = [segment for segment in layout.segments(path) if segment.number == 0][-1:]
    return [
        record
        for segment in first
        for record in islice(Scanner(path / layout.JOURNAL / segment.filename).read(), BEGINNING)
        if isinstance(record, records.Event) and record.name == "plan"
    ]


class Pipe:
    """A stream that remembers a broken pipe, because the console sink would ignore it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.broken = False
        self.terminal = stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except BrokenPipeError:
            self.broken = True

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self.broken = True

    def end(self, text: str) -> None:
        """Write the last line, over the progress bar if there is one."""
        self.write((WIPE if self.terminal else "") + text)
        self.flush()
