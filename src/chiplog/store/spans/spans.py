"""Stored spans and queries over them.

>>> spans = chiplog.read("latest").spans()
>>> spans.named("rollout").on("tpu0").at(step=100)
>>> spans.roots("global_step", "last").children("micro_batch").seconds
>>> spans.device().idle()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np

from chiplog.core import records
from chiplog.core.records import Number, Plain
from chiplog.metrics import step_spans
from chiplog.metrics.step_spans import Aggregate
from chiplog.store.spans import span_times
from chiplog.store.spans.columns import Array, Bools, Ints, SpanColumns, as_float
from chiplog.store.spans.nesting import Nesting
from chiplog.store.spans.span import StoredSpan
from chiplog.store.spans.span_times import first_seen
from chiplog.store.spans.table import aggregate

if TYPE_CHECKING:
    import pyarrow

Which = str | int  # "all", "first", "last", or a number from 0 on
HOST = ("", "task")


class Spans(Sequence[StoredSpan]):
    """Spans in the order of their starts. Every query returns a smaller set, which keeps the whole it came from.

    They are rows of columns; an object is created only when a span is accessed.
    """

    def __init__(self, columns: SpanColumns, rows: Ints | None = None, whole: Spans | None = None) -> None:
        self._columns = columns
        self._rows = columns.by_start(rows) if whole is None or rows is None else rows
        self._whole = whole

    @overload
    def __getitem__(self, at: int) -> StoredSpan: ...
    @overload
    def __getitem__(self, at: slice) -> Spans: ...
    def __getitem__(self, at: int | slice) -> StoredSpan | Spans:
        if isinstance(at, slice):
            return self._of(self._rows[at])
        return next(self._columns.objects(self._rows[[at]]))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[StoredSpan]:
        return iter(self._objects)

    def __eq__(self, other: object) -> bool:
        return self._objects == list(other) if isinstance(other, (Spans, list)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} spans>"

    # -- which -----------------------------------------------------------------------------------------------------

    def where(self, test: Callable[[StoredSpan], object]) -> Spans:
        """Those for which a function returns true."""
        return self._of(self._rows[np.array([bool(test(span)) for span in self], bool)])

    def named(self, *patterns: str) -> Spans:
        """With these names; `*` and `?` are wildcards."""
        names = self._columns.names.items()
        return self._coded("name", (code for name, code in names if _matches(name, patterns)))

    def tagged(self, *keys: str, **tags: Plain) -> Spans:
        """With these tags, of any value or of the given one."""
        wanted = {*keys, *tags}
        if not wanted:
            return self[:]
        columns = self._columns
        matching = [
            at
            for at, row in enumerate(self._rows.tolist())
            if row in columns.tags
            and wanted <= (present := columns.tags_of(row)).keys()
            and all(present[key] == value for key, value in tags.items())
        ]
        return self._of(self._rows[np.array(matching, np.int64)])

    def on(self, *timelines: str) -> Spans:
        """On these timelines: threads, tasks (`MainThread/Task-1`), devices (`tpu0`), queues (`tpu0_queue`)."""
        return self._coded("lane", (code for (label, _), code in self._columns.lanes.items() if label in timelines))

    def host(self) -> Spans:
        """On threads and tasks."""
        return self._of(self._rows[self._is_kind(*HOST)])

    def device(self) -> Spans:
        """On devices, without their queues."""
        return self._of(self._rows[self._is_kind("device")])

    def queued(self) -> Spans:
        """Waiting for a device."""
        return self._of(self._rows[self._is_kind("queue")])

    def at(self, step: Number | None = None, *, first: float | None = None, last: float | None = None) -> Spans:
        """Of one step, or of the steps from `first` to `last`."""
        steps = self._column("step")
        if step is not None:
            return self._of(self._rows[steps == as_float(step)])
        low, high = -np.inf if first is None else as_float(first), np.inf if last is None else as_float(last)
        return self._of(self._rows[(steps >= low) & (steps <= high)])

    def of(self, *, rank: int | None = None, attempt: int | None = None) -> Spans:
        streams = self._columns.streams.items()
        return self._coded(
            "stream", (code for one, code in streams if rank in (None, one[0]) and attempt in (None, one[1]))
        )

    def failed(self) -> Spans:
        """Left by an exception, or abandoned."""
        return self._of(self._rows[self._column("failed").astype(bool)])

    def first(self, name: str | None = None) -> Spans:
        return self._pick(name, "first")

    def last(self, name: str | None = None) -> Spans:
        return self._pick(name, "last")

    def nth(self, name: str | None, number: int) -> Spans:
        """The one with this number, counted from 0; none if there are fewer."""
        return self._pick(name, number)

    def longest(self, count: int) -> Spans:
        """At most `count`: those that took longest, in the same order."""
        longest = np.argsort(-self._column("duration"), kind="stable")[:count]
        return self._of(self._rows[np.sort(longest)])

    def by_name(self) -> dict[str, Spans]:
        """The same spans, as one set per name."""
        names, codes = list(self._columns.names), self._column("name")
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(names))) if len(self) else np.zeros(len(names), np.int64)
        return {
            names[code]: self._of(self._rows[order[ends[code - 1] if code else 0 : ends[code]]])
            for code in first_seen(codes)
        }

    def alone(self) -> Spans:
        """The same spans, as if the run had no others."""
        return Spans(self._columns, self._rows)

    # -- around and inside -----------------------------------------------------------------------------------------

    def roots(self, name: str | None = None, which: Which = "all") -> Spans:
        """Those on threads and tasks that no other span of their timeline contains."""
        return self._of(self._rows[self._is_kind(*HOST) & ~self._nesting.is_inside[self._rows]])._pick(name, which)

    def children(self, name: str | None = None, which: Which = "all") -> Spans:
        """The spans directly inside these, on any timeline; `which` chooses among those of each parent."""
        rows, parents = self._nesting.children(self._rows)
        if name is not None:
            named = self._columns.column("name")[rows] == self._columns.names.get(name, -1)
            rows, parents = rows[named], parents[named]
        return self._of(rows[_chosen(parents, which)])

    def inside(self, name: str | None = None) -> Spans:
        """The spans inside these, at any depth."""
        seen = np.zeros(self._columns.rows, bool)
        levels = [self._rows[:0]]
        level, _ = self._nesting.children(self._rows)
        while len(level):
            seen[level] = True
            levels.append(level)
            level, _ = self._nesting.children(level)
            level = level[~seen[level]]
        return self._of(self._columns.by_start(np.concatenate(levels)))._pick(name, "all")

    def parents(self) -> Spans:
        """The spans that directly contain these, each once."""
        outer = self._nesting.outer[self._rows]
        return self._of(np.array(first_seen(outer[outer >= 0]), np.int64))

    # -- how long --------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> list[float]:
        """Their durations."""
        return (self._column("duration") / 1e9).tolist()  # type: ignore[no-any-return]

    @property
    def names(self) -> list[str]:
        names = list(self._columns.names)
        return [names[code] for code in first_seen(self._column("name"))]

    @property
    def timelines(self) -> list[str]:
        lanes = list(self._columns.lanes)
        return list(dict.fromkeys(lanes[code][0] for code in first_seen(self._column("lane"))))

    @property
    def steps(self) -> list[Number]:
        """Their steps, in order."""
        steps = self._column("step")
        has_step = steps == steps
        _, at = np.unique(steps[has_step], return_index=True)
        return [step for step in self._columns.steps(self._rows[has_step][at]) if step is not None]

    @property
    def ranks(self) -> list[int]:
        """Their ranks, in order."""
        return sorted({rank for rank, _ in self._streams()})

    @property
    def attempts(self) -> list[int]:
        """Their attempts, in order."""
        return sorted({attempt for _, attempt in self._streams()})

    @property
    def reach(self) -> tuple[int, int]:
        """The first start and the last end."""
        return (
            (int(self._column("start").min()), int(span_times.ends(self._columns, self._rows).max()))
            if len(self)
            else (0, 0)
        )

    def lengths(self) -> dict[Number, int]:
        """Nanoseconds from the first start to the last end of each step."""
        return dict(zip(self.steps, span_times.extents(self._columns, self._rows), strict=True))

    def total(self) -> float:
        """Seconds of all of them together."""
        return int(self._column("duration").sum()) / 1e9

    def table(self, *, by_step: bool = True) -> list[Aggregate]:
        """Count, total, own time, p50, p95 and maximum, for each step, name and kind; or over all steps."""
        rows = self._columns.by_start(self._rows)
        return aggregate(self._columns, rows, self._nesting.own[rows], by_step=by_step)

    def own(self) -> float:
        """Seconds of these that no span inside them, on the same timeline, covers."""
        return int(self._nesting.own[self._rows].sum()) / 1e9

    def idle(self) -> dict[str, float]:
        """Seconds between the spans of each timeline."""
        return span_times.idle(self._columns, self._rows)

    def overlap(self) -> float:
        """Seconds in which a host and a device were both busy."""
        return span_times.overlap(self._columns, self._rows, self._is_kind(*HOST), self._is_kind("device"))

    def wait(self) -> float:
        """Seconds between launch and start of the work that these launched on devices."""
        outer = self._nesting.outer[self._rows]
        launched = (outer >= 0) & self._is_kind("device")
        return int((self._column("start")[launched] - self._columns.column("start")[outer[launched]]).sum()) / 1e9

    def metrics(self, step: Number) -> records.Row:
        """The `perf/…` row of a step, as `run.trace(metrics=True)` logs it."""
        return step_spans.times(list(self.at(step)))

    # -- as other things -------------------------------------------------------------------------------------------

    def to_numpy(self) -> dict[str, Array]:
        """A column for each field except the tags; a missing step is NaN."""
        columns = self._columns
        lanes, streams = list(columns.lanes), list(columns.streams)
        lane, stream = self._column("lane"), self._column("stream")
        return {
            "id": self._column("id"),
            "parent": self._column("parent"),
            "name": np.array(list(columns.names), dtype=str)[self._column("name")],
            "thread": np.array([label for label, _ in lanes], dtype=str)[lane],
            "kind": np.array([kind for _, kind in lanes], dtype=str)[lane],
            "start": self._column("start"),
            "duration": self._column("duration"),
            "step": self._column("step"),
            "failed": self._column("failed"),
            "error": np.array([columns.errors.get(row, "") for row in self._rows.tolist()], dtype=str),
            "rank": np.array([rank for rank, _ in streams], np.int64)[stream],
            "attempt": np.array([attempt for _, attempt in streams], np.int64)[stream],
        }

    def to_arrow(self) -> pyarrow.Table:
        """The columns of `.spans.parquet` (docs/format.md), with rank and attempt; tags as JSON."""
        from chiplog.store.spans.arrow import to_table  # all other queries work without pyarrow

        return to_table(self._columns, self._rows, with_stream=True)

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def whole(self) -> Spans:
        """All spans from which these were selected."""
        return self if self._whole is None else self._whole

    @property
    def _nesting(self) -> Nesting:
        return self.whole._nested

    @cached_property
    def _nested(self) -> Nesting:
        return Nesting(self._columns, self._rows)

    @cached_property
    def _objects(self) -> list[StoredSpan]:
        return list(self._columns.objects(self._rows))

    def _column(self, name: str) -> Array:
        return self._columns.column(name)[self._rows]

    def _streams(self) -> list[tuple[int, int]]:
        streams = list(self._columns.streams)
        return [streams[code] for code in np.unique(self._column("stream")).tolist()]

    def _is_kind(self, *kinds: str) -> Bools:
        of_lanes = np.array([kind in kinds for _, kind in self._columns.lanes], bool)
        chosen: Bools = of_lanes[self._column("lane")]
        return chosen

    def _of(self, rows: Ints) -> Spans:
        return Spans(self._columns, rows, self.whole)

    def _coded(self, column: str, codes: Iterable[int]) -> Spans:
        return self._of(self._rows[np.isin(self._column(column), np.array([*codes], np.int64))])

    def _pick(self, name: str | None, which: Which) -> Spans:
        rows = self._rows
        if name is not None:
            rows = rows[self._column("name") == self._columns.names.get(name, -1)]
        return self._of(rows[_chosen(np.zeros(len(rows), np.int64), which)])


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _chosen(groups: Ints, which: Which) -> Bools:
    """A mask of groups that follow each other: of all their members, or of one in each."""
    if which == "all":
        return np.ones(len(groups), bool)
    if which == "last":
        return np.append(groups[1:] != groups[:-1], np.ones(min(1, len(groups)), bool))
    number = 0 if which == "first" else which
    if not isinstance(number, int):
        raise ValueError(f"which = {which!r}: use 'all', 'first', 'last' or a number from 0 on")
    chosen: Bools = np.arange(len(groups)) - np.searchsorted(groups, groups) == number
    return chosen
