"""Arithmetic on the times of spans, in arrays: of the spans at some rows of the columns."""

from __future__ import annotations

import numpy as np

from chiplog.store.spans.columns import Array, Bools, Ints, SpanColumns
from chiplog.store.spans.intervals import covered, union


def ends(columns: SpanColumns, rows: Ints) -> Ints:
    """When each span ended, in nanoseconds."""
    times: Ints = columns.column("start")[rows] + columns.column("duration")[rows]
    return times


def extents(columns: SpanColumns, rows: Ints) -> list[int]:
    """Nanoseconds from the first start to the last end of each step, in the order of the steps."""
    steps = columns.column("step")[rows]
    rows, steps = rows[steps == steps], steps[steps == steps]
    different, index = np.unique(steps, return_inverse=True)
    first, last = np.full(len(different), np.iinfo(np.int64).max), np.full(len(different), np.iinfo(np.int64).min)
    np.minimum.at(first, index, columns.column("start")[rows])
    np.maximum.at(last, index, ends(columns, rows))
    extents_: list[int] = (last - first).tolist()
    return extents_


def idle(columns: SpanColumns, rows: Ints) -> dict[str, float]:
    """Seconds between the spans of each timeline."""
    if not len(rows):
        return {}
    labels = list(dict.fromkeys(label for label, _ in columns.lanes))
    of_lane = np.array([labels.index(label) for label, _ in columns.lanes], np.int64)
    timeline = columns.column("stream")[rows] * len(labels) + of_lane[columns.column("lane")[rows]]
    start, end = columns.column("start")[rows], ends(columns, rows)
    seconds: dict[str, float] = {}
    for one in first_seen(timeline):
        mine = timeline == one
        begins, until = union(start[mine], end[mine])
        label = labels[one % len(labels)]
        seconds[label] = seconds.get(label, 0.0) + int((begins[1:] - until[:-1]).sum()) / 1e9
    return seconds


def overlap(columns: SpanColumns, rows: Ints, host: Bools, device: Bools) -> float:
    """Seconds in which a host and a device were both busy: what each covers, minus what both together cover."""
    start, end = columns.column("start")[rows], ends(columns, rows)
    both = host | device
    common = covered(start[host], end[host]) + covered(start[device], end[device]) - covered(start[both], end[both])
    return common / 1e9


def first_seen(codes: Array) -> list[int]:
    """Each code once, in the order of first appearance."""
    unique, at = np.unique(codes, return_index=True)
    ordered: list[int] = unique[np.argsort(at)].tolist()
    return ordered
