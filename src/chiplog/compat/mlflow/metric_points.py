"""Metrics of MLflow as points of series, and back.

A point has the time at which it was logged. A timestamp that differs from that is kept in the table `mlflow_times`.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from mlflow.entities import Metric

from chiplog.compat.mlflow.facts import typed_rows
from chiplog.core.run import Run
from chiplog.store import layout
from chiplog.store.reader import Stored

TIMES = "mlflow_times"
CLOSE = 50  # ms between a call and its record

Moved: TypeAlias = dict[str, dict[tuple[int, str], deque[int]]]  # timestamps by metric, then step and value


class Point(NamedTuple):
    """A value of a metric, in the order in which MLflow compares them."""

    step: int
    time: int  # ns
    value: float


class MovedPoint(msgspec.Struct):
    """A row of the table of times."""

    metric: str
    point: int  # its step
    value: str
    timestamp: int  # ms


def write(run: Run, metrics: Sequence[Metric]) -> None:
    """Log metrics, those of the same step in one row."""
    now = time.time_ns() // 10**6
    moved = [
        {"metric": one.key, "point": one.step, "value": repr(float(one.value)), "timestamp": one.timestamp}
        for one in metrics
        if abs(one.timestamp - now) > CLOSE
    ]
    if moved:
        run.table(TIMES, moved)
    for (step, _), group in groupby(metrics, key=lambda one: (one.step, one.timestamp)):
        row: dict[str, float] = {}
        for one in group:
            if one.key in row:  # another value of the same step
                run.log(row, step=step)
                row = {}
            row[one.key] = float(one.value)
        run.log(row, step=step)


def history(stored: Stored, name: str) -> list[Point]:
    """All points of a metric in the order they were logged, those of earlier attempts included."""
    return _points(stored, name, _streams(stored), _moved(stored))


def latest(stored: Stored) -> dict[str, Point]:
    """The newest point of every metric: that of the highest step, and there the last."""
    moved, streams = _moved(stored), _streams(stored)
    newest: dict[str, Point] = {}
    for name in stored.names():
        if points := _points(stored, name, streams, moved, only_highest=name not in moved):
            newest[name] = max(points, key=_order)
    return newest


def as_metric(name: str, point: Point, run_id: str) -> Metric:
    return Metric(name, point.value, point.time // 10**6, point.step, run_id=run_id)


def _order(point: Point) -> tuple[int, int, float]:
    return point.step, point.time, point.value if point.value == point.value else -np.inf


def _streams(stored: Stored) -> list[tuple[int, int]]:
    """The rank and attempt of every journal, in the order in which they started."""
    streams = {(segment.attempt, segment.rank) for segment in layout.segments(stored.path)}
    return [(rank, attempt) for attempt, rank in sorted(streams)]


def _points(
    stored: Stored, name: str, streams: Iterable[tuple[int, int]], moved: Moved, *, only_highest: bool = False
) -> list[Point]:
    times = {key: deque(stamps) for key, stamps in moved.get(name, {}).items()}
    logged_points: list[tuple[int, Point]] = []
    for rank, attempt in streams:
        series = stored.series(name, rank=rank, attempt=attempt, missing_ok=True)
        if not len(series):
            continue
        steps, values = series.steps, series.values
        logged = series.times.astype(np.int64)
        if only_highest:
            kept = steps == steps.max()
            steps, values, logged = steps[kept], values[kept], logged[kept]
        for step, value, nanoseconds in zip(steps.tolist(), values.tolist(), logged.tolist(), strict=True):
            stamps = times.get((int(step), repr(value))) if times else None
            moment = stamps.popleft() * 10**6 if stamps else nanoseconds
            logged_points.append((nanoseconds, Point(int(step), moment, value)))
    logged_points.sort(key=lambda one: one[0])
    return [point for _, point in logged_points]


def _moved(stored: Stored) -> Moved:
    moved: Moved = defaultdict(lambda: defaultdict(deque))
    for row in typed_rows(stored, TIMES, MovedPoint):
        moved[row.metric][row.point, row.value].append(row.timestamp)
    return moved
