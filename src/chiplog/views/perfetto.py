"""A stored run as one Perfetto trace: ranks and attempts as processes, written at one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from chiplog.core.records import Attempt
from chiplog.store import layout, timelines
from chiplog.store.reader import Stored, beyond
from chiplog.store.timelines import COUNTERS, Trace


def packets(stored: Stored, *, rank: int | None = None, counters: Iterable[str] = COUNTERS) -> Iterator[bytes]:
    """The bytes of the trace, in pieces; of one rank, or of all on the same clock."""
    traces: dict[tuple[int, int], Trace] = {}
    patterns = tuple(counters)
    for segment in sorted(layout.segments(stored.path), key=lambda one: (one.rank, one.attempt, one.number)):
        if rank not in (None, segment.rank):
            continue
        which = segment.rank, segment.attempt
        for record in beyond(stored.path, segment, None).read():
            if which not in traces:
                if isinstance(record, Attempt):
                    traces[which] = timelines.opened(record, segment.attempt, patterns)
                else:  # its first line is damaged
                    traces[which] = Trace(*which, record.time, counters=patterns)
            if piece := traces[which].feed(record):
                yield piece


def write(stored: Stored, path: Path, *, rank: int | None = None, more: Iterable[bytes] = ()) -> int:
    """Write the trace, and more packets behind it, aside and then into place; how many bytes it has."""
    aside = path.with_name(f".{path.name}.new")
    size = 0
    try:
        with aside.open("wb") as file:
            for pieces in (packets(stored, rank=rank), more):
                for piece in pieces:
                    size += file.write(piece)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return size
