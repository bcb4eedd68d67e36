"""A stored run as one Perfetto trace, with ranks and attempts as processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from chiplog.core.files.writing import replacing
from chiplog.core.records import Attempt
from chiplog.store.contents.segment import segments
from chiplog.store.perfetto import trace
from chiplog.store.perfetto.trace import COUNTERS, Trace
from chiplog.store.reader import Stored


def packets(stored: Stored, *, rank: int | None = None, counters: Iterable[str] = COUNTERS) -> Iterator[bytes]:
    """The bytes of the trace, in chunks; of one rank, or of all on the same clock."""
    traces: dict[tuple[int, int], Trace] = {}
    patterns = tuple(counters)
    for one in segments(stored.path):
        if rank not in (None, one.segment.rank):
            continue
        which = one.segment.rank, one.segment.attempt
        for record in one.records():
            if which not in traces:
                if isinstance(record, Attempt):
                    traces[which] = trace.opened(record, one.segment.attempt, patterns)
                else:  # its first line is damaged
                    traces[which] = Trace(*which, record.time, counters=patterns)
            if piece := traces[which].feed(record):
                yield piece


def write(stored: Stored, path: Path, *, rank: int | None = None, more: Iterable[bytes] = ()) -> int:
    """Write the trace, followed by more packets, atomically; returns its size in bytes."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        return sum(map(file.write, chain(packets(stored, rank=rank), more)))
