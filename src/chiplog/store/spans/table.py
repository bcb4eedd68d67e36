"""Where the time of stored spans went, as a table."""

from __future__ import annotations

import numpy as np

from chiplog.metrics.step_spans import Aggregate, quantile
from chiplog.store.spans.columns import Ints, SpanColumns


def aggregate(columns: SpanColumns, rows: Ints, own: Ints, *, by_step: bool) -> list[Aggregate]:
    """An aggregate for each name and kind of timeline, or for each step of them, in the order of first appearance.

    `own` holds the own times of the spans at these rows.
    """
    if not len(rows):
        return []
    groups = _groups(columns, rows, by_step)
    _, firsts, counts = np.unique(groups, return_index=True, return_counts=True)
    ends = np.cumsum(counts)
    begins = ends - counts
    durations = columns.column("duration")[rows]
    order = np.lexsort((durations, groups))
    durations = durations[order]
    totals, owns = np.add.reduceat(durations, begins).tolist(), np.add.reduceat(own[order], begins).tolist()
    by_first = np.argsort(firsts, kind="stable")
    aggregates = []
    for at, first in zip(by_first.tolist(), columns.objects(rows[firsts[by_first]]), strict=True):
        ordered = durations[begins[at] : ends[at]].tolist()
        aggregates.append(
            Aggregate(
                first.step if by_step else None,
                first.name,
                first.kind,
                len(ordered),
                totals[at] / 1e9,
                owns[at] / 1e9,
                float(quantile(ordered, 0.5)) / 1e9,
                float(quantile(ordered, 0.95)) / 1e9,
                int(ordered[-1]) / 1e9,
            )
        )
    return aggregates


def _groups(columns: SpanColumns, rows: Ints, by_step: bool) -> Ints:
    """The number of the group that each row belongs to."""
    kinds: dict[str, int] = {}
    of_lanes = np.array([kinds.setdefault(kind, len(kinds)) for _, kind in columns.lanes], np.int64)
    keys = [columns.column("name")[rows], of_lanes[columns.column("lane")[rows]]]
    if by_step:  # spans without a step form one group
        steps = np.nan_to_num(columns.column("step")[rows], nan=np.inf)
        keys.append(np.unique(steps, return_inverse=True)[1])
    groups: Ints = np.zeros(len(rows), np.int64)
    for key in keys:
        groups = np.unique(groups * (int(key.max()) + 1) + key, return_inverse=True)[1]
    return groups
