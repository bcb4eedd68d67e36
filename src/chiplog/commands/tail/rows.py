"""The records of a run as they are written, in the format of the console sink."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO, cast

from chiplog.commands.tail.output import Output
from chiplog.core import records
from chiplog.core.records import AnyRecord
from chiplog.sinks.console.layout import UNLIMITED
from chiplog.sinks.console.progress import LOSSES
from chiplog.sinks.console.sink import RATE, Console
from chiplog.store import layout, manifest
from chiplog.store.journal.lines import Scanner
from chiplog.store.journal.tail import Tail, near_end
from chiplog.store.reader import Stored

SEARCHED = (64 << 10, 4 << 20, None)  # bytes from the end that are searched for the last records; None for all
BEGINNING = 200  # records that are searched for the planned length of the run


def follow(stored: Stored, out: Output, args: Namespace) -> None:
    """Print the last records, then new ones until the run ends."""
    rate = None if args.once else max(RATE, args.n)
    width = None if out.terminal else args.screen.room or UNLIMITED
    config = manifest.load(stored.path).config
    console = Console(cast(TextIO, out), environ=args.environ, width=width, rate=rate, config=config)
    older, newest, tail = _newest(stored.path, args.n)
    console.remember(older)
    try:
        console.write([*_plan(stored.path), *newest])
        for batch in stored.batches(tail) if not args.once else ([],):
            console.write(batch)
            out.check()
    finally:
        out.end("")


def _newest(path: Path, count: int) -> tuple[list[AnyRecord], list[AnyRecord], Tail]:
    """The last records that the console shows, those before them, and a tail that continues after them."""
    main = min((segment.rank for segment in layout.segments(path)), default=0)
    for size in SEARCHED:
        tail = Tail(path, rank=main, positions=None if size is None else near_end(path, size))
        shown = [record for record in _all(tail) if _has_line(record)]
        if len(shown) > count:  # an eval needs the loss before it
            break
    shown.sort(key=lambda record: record.time)
    first = max(0, len(shown) - count)
    return shown[max(0, first - LOSSES) : first], shown[first:], tail


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
