"""Which spans contain which, and how much of the time of each is its own."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from chiplog.metrics import step_spans
from chiplog.store.spans.columns import Bools, Ints, SpanColumns


class Nesting:
    """The nesting of the spans at some rows, which are in the order of their starts. Its arrays cover all rows."""

    def __init__(self, columns: SpanColumns, rows: Ints) -> None:
        self._columns, self._rows = columns, rows

    @cached_property
    def outer(self) -> Ints:
        """The row of the parent, -1 for none."""
        columns, rows = self._columns, self._rows
        outer = np.full(columns.rows, -1)
        if not len(rows):
            return outer
        ids, parents, streams = (columns.column(name)[rows] for name in ("id", "parent", "stream"))
        has_parent = parents != 0
        top = max(int(ids.max()), int(parents.max())) + 1
        if min(int(ids.min()), int(parents.min())) < 0 or top * len(columns.streams) >= 2**62:  # not counted from 1
            numbers, codes = np.unique(np.concatenate((ids, parents)), return_inverse=True)
            (ids, parents), top = np.split(codes, 2), len(numbers)
        keys, wanted = streams * top + ids, streams * top + parents
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(keys[order], wanted, side="right") - 1  # if several have the same id, the last
        places = order[np.maximum(at, 0)]
        outer[rows] = np.where(has_parent & (at >= 0) & (keys[places] == wanted), rows[places], -1)
        return outer

    @cached_property
    def is_inside(self) -> Bools:
        """Whether a span is inside another one on the same timeline."""
        columns = self._columns
        inside = self.outer >= 0
        if len(self._rows):
            labels: dict[str, int] = {}
            codes = np.array([labels.setdefault(label, len(labels)) for label, _ in columns.lanes], np.int64)
            mine = codes[columns.column("lane")]
            inside &= mine == mine[self.outer]
        return inside

    @cached_property
    def own(self) -> Ints:
        """Nanoseconds that no child on the same timeline covers."""
        starts, durations = self._columns.column("start"), self._columns.column("duration")
        own: Ints = durations.copy()
        rows = self._rows[self.is_inside[self._rows]]
        outer = self.outer[rows]
        begins = np.maximum(starts[rows], starts[outer])
        ends = np.minimum(starts[rows] + durations[rows], starts[outer] + durations[outer])
        order = np.argsort(outer, kind="stable")
        order = order[ends[order] > begins[order]]
        begins, ends, outer = begins[order], ends[order], outer[order]
        np.subtract.at(own, outer, ends - begins)
        crossing = np.unique(outer[1:][(outer[1:] == outer[:-1]) & (begins[1:] < ends[:-1])])
        for one in crossing.tolist():  # children that overlap each other count once
            first, last = np.searchsorted(outer, one), np.searchsorted(outer, one, side="right")
            apart = step_spans.union(zip(begins[first:last].tolist(), ends[first:last].tolist(), strict=True))
            own[one] = durations[one] - step_spans.length(apart)
        return own

    def children(self, rows: Ints) -> tuple[Ints, Ints]:
        """The rows that lie directly in these, and for each the index of its parent among these."""
        outers, inner = self._inside
        first = np.searchsorted(outers, rows)
        counts = np.searchsorted(outers, rows, side="right") - first
        parents = np.repeat(np.arange(len(rows)), counts)
        places = np.arange(len(parents)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        return inner[places], parents

    @cached_property
    def _inside(self) -> tuple[Ints, Ints]:
        """(parents, their children by start), by parent."""
        rows = self._rows[self.outer[self._rows] >= 0]
        outers = self.outer[rows]
        order = np.argsort(outers, kind="stable")
        return outers[order], rows[order]
