"""All points of some series as CSV: what a chart shows, before it was reduced to buckets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from chiplog.sinks.csv.table import written
from chiplog.store.points.series import Series
from chiplog.views.export.tables import cells

PIECE = 1 << 20  # about the bytes of a piece, whose every line repeats the names
LINE = 64  # about the bytes of a line without them


def points_csv(lines: Iterable[tuple[str, int, Series]]) -> Iterator[bytes]:
    """A line per point: run, name, rank (empty: the main one), step, time in UTC, and value; in pieces."""
    yield b"run,name,rank,step,time,value\n"
    for run, rank, series in lines:
        head = b",".join((written(run), written(series.name), b"%d" % rank if rank >= 0 else b""))
        times, values = np.datetime_as_string(series.times, unit="us"), series.exact
        count = max(1, PIECE // (len(head) + LINE))
        for start in range(0, len(series), count):
            part = slice(start, start + count)
            rows = zip(cells(series.steps[part].tolist()), times[part].tolist(), cells(values[part]), strict=True)
            yield b"".join(b"%b,%b,%bZ,%b\n" % (head, step, time.encode(), value) for step, time, value in rows)
