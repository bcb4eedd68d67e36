"""Series for the browser: about as many points as pixels, with the minimum and maximum of each bucket.

A response is a JSON header and the arrays it lists, as little-endian doubles, so that no precision is lost and the page
need not parse numbers. A response holds several series; those in the same chart share their buckets.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from chiplog.core.records import Plain
from chiplog.store.points.columns import Floats
from chiplog.store.points.series import Series, bucket
from chiplog.store.reader import Stored
from chiplog.views.charts.line_smoothing import smoothed
from chiplog.views.x_axis import positions

POINTS = 1500  # buckets by default
MOST_POINTS = 20_000
MOST_MARKS = 600
MEMORY = 128 << 20  # bytes of cached series: those on the screen, for zooming; others are read again in milliseconds


def use_plain_memory() -> None:
    """Let Arrow allocate from the system, in a process that reads many large columns.

    Its default pool asks the kernel for huge pages, and clearing them takes longer than reading.
    """
    pa.set_memory_pool(pa.system_memory_pool())


class XValues(NamedTuple):
    """How the x axis is measured: step, time, relative, tokens, epoch, flops, or `metric:NAME`."""

    kind: str = "step"
    log: bool = False
    low: float | None = None
    high: float | None = None
    smooth: float = 0.0  # the weight of a neighbour, from 0 to below 1


class DrawnLine(NamedTuple):
    """A series over an axis, in the order of x."""

    x: Floats
    y: Floats
    until: float  # microseconds: when the last point was logged; 0 if not requested


_Key = tuple[str, str, str, int]  # path, name, axis and rank


class SeriesCache:
    """A cache of recent series, ready to be drawn; safe to use from several threads."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._lines: OrderedDict[_Key, tuple[str, DrawnLine]] = OrderedDict()
        self._memory, self._size = memory, 0
        self._lock = threading.Lock()

    def line(
        self, stored: Stored, stamp: str, name: str, axis: XValues, *, live: bool = False, rank: int = -1
    ) -> DrawnLine:
        """A series over an axis; from the cache if the run's stamp has not changed."""
        key = str(stored.path), name, axis.kind, rank
        with self._lock:
            cached = self._lines.get(key)
            if cached is not None and cached[0] == stamp:
                self._lines.move_to_end(key)
                return cached[1]
        if axis.kind == "step" and rank < 0:
            steps, values, last = stored.drawn(name) if live else (*stored.places(name), 0)
            line = _finite(steps.astype(np.float64), values, float(last // 1000))
        else:
            line = over(
                stored, stored.series(name, rank=None if rank < 0 else rank, missing_ok=True), axis.kind, live=live
            )
        with self._lock:
            if key in self._lines:
                self._size -= _bytes(key, self._lines.pop(key)[1])
            self._lines[key] = stamp, line
            self._size += _bytes(key, line)
            while self._size > self._memory and len(self._lines) > 1:
                oldest, (_, dropped) = self._lines.popitem(last=False)
                self._size -= _bytes(oldest, dropped)
        return line


def over(stored: Stored, series: Series, kind: str, *, live: bool = False) -> DrawnLine:
    """A series over an axis, without the points that have no x."""
    y = series.values
    x = positions(stored, series, kind)
    until = float(series.times.view(np.int64).max() // 1000) if live and len(series) else 0.0
    return _finite(x, y, until)


def _finite(x: Floats, y: Floats, until: float) -> DrawnLine:
    """A line sorted by x, without the points that have none."""
    if not np.isfinite(x).all():
        kept = np.isfinite(x)
        x, y = x[kept], y[kept]
    if len(x) > 1 and not bool(np.all(x[1:] >= x[:-1])):
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    return DrawnLine(x, y, until)


def pack(groups: Sequence[Sequence[tuple[dict[str, Plain], DrawnLine]]], axis: XValues, n: int) -> bytes:
    """Lines as one response; each group shares its buckets."""
    header: list[dict[str, Plain]] = []
    arrays: list[Floats] = []
    place = 0
    for group in groups:
        drawn = draw([line for _, line in group], axis, n)
        for (about, _), (facts, columns) in zip(group, drawn, strict=True):
            where = {}
            for name, column in columns.items():
                where[name] = (place, len(column))
                arrays.append(np.ascontiguousarray(column, "<f8"))
                place += len(column)
            header.append({**about, **facts, "arrays": where})
    head = msgspec.json.encode({"series": header})
    head += b" " * (-(len(head) + 8) % 8)
    return len(head).to_bytes(8, "little") + head + b"".join(array.tobytes() for array in arrays)


def draw(lines: list[DrawnLine], axis: XValues, n: int) -> list[tuple[dict[str, Plain], dict[str, Floats]]]:
    """Each line as points if it is short, otherwise in buckets that all lines share."""
    windows = [_window(line, axis) for line in lines]
    ends = [(float(x[0]), float(x[-1])) for x, _ in windows if len(x)]
    low = min((one for one, _ in ends), default=0.0)
    high = max((one for _, one in ends), default=0.0)
    drawn = []
    for line, (x, y) in zip(lines, windows, strict=True):
        facts: dict[str, Plain] = {"total": len(line.x), "until": line.until}
        if len(line.x):
            facts["span"] = [float(line.x[0]), float(line.x[-1])]
        facts["marks"] = _marks(x, y, low, high, n)
        soft = _smooth(line, axis) if axis.smooth else {}
        if len(x) <= 2 * n:
            facts["mode"] = "points"
            drawn.append((facts, {"x": x, "y": y, **soft}))
            continue
        finite = np.isfinite(y)
        places = np.log10(x) if axis.log else x
        ends_of = (np.log10(low), np.log10(high)) if axis.log else (low, high)
        buckets = bucket(places, y if finite.all() else np.where(finite, y, np.nan), n, between=ends_of)
        middle = buckets.low / 2 + buckets.high / 2
        across = 10**middle if axis.log else middle
        facts["mode"] = "buckets"
        drawn.append((facts, {"x": across, "y": buckets.mean, "min": buckets.min, "max": buckets.max, **soft}))
    return drawn


def _smooth(line: DrawnLine, axis: XValues) -> dict[str, Floats]:
    """The smoothed line between the ends of the axis."""
    x, y = _window(DrawnLine(*smoothed(line.x, line.y, axis.smooth), 0.0), axis)
    return {"smooth_x": x, "smooth_y": y}


def _window(line: DrawnLine, axis: XValues) -> tuple[Floats, Floats]:
    """The points between the ends of an axis, and one beyond each end so that the line reaches it."""
    first = 0 if axis.low is None else max(0, int(np.searchsorted(line.x, axis.low, "left")) - 1)
    last = len(line.x) if axis.high is None else int(np.searchsorted(line.x, axis.high, "right")) + 1
    if axis.log:
        first = max(first, int(np.searchsorted(line.x, 0.0, "right")))
    return line.x[first:last], line.y[first:last]


def _marks(x: Floats, y: Floats, low: float, high: float, n: int) -> list[tuple[float, str, int]]:
    """Where a line has no number: (x, kind, count), nearby ones merged."""
    bad = np.flatnonzero(~np.isfinite(y))
    if not len(bad):
        return []
    width = (high - low) / min(n, MOST_MARKS // 3) or 1.0
    cells = ((x[bad] - low) / width).astype(np.int64)
    marks: list[tuple[float, str, int]] = []
    for which, chosen in (("nan", np.isnan(y[bad])), ("inf", y[bad] == np.inf), ("-inf", y[bad] == -np.inf)):
        _, first, count = np.unique(cells[chosen], return_index=True, return_counts=True)
        marks += [(float(at), which, int(many)) for at, many in zip(x[bad][chosen][first], count.tolist(), strict=True)]
    return sorted(marks)[:MOST_MARKS]


def _bytes(key: _Key, line: DrawnLine) -> int:
    """About the memory of a line in the cache: also of an empty one, because any name may be asked for."""
    return 1000 + sum(len(text) for text in key[:3]) + line.x.nbytes + line.y.nbytes
