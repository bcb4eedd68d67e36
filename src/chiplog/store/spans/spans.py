"""Stored spans and questions about them.

>>> spans = chiplog.read("latest").spans()
>>> spans.named("rollout").on("tpu0").at(step=100)
>>> spans.roots("global_step", "last").children("micro_batch").seconds
>>> spans.device().idle()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from chiplog.core import records
from chiplog.core.records import Number
from chiplog.metrics import timing
from chiplog.metrics.timing import Aggregate
from chiplog.store.spans.columns import Array, Bools, Ints, SpanColumns, as_float
from chiplog.store.spans.intervals import covered, union
from chiplog.store.spans.nesting import Nesting
from chiplog.store.spans.span import Span
from chiplog.store.spans.table import aggregate

if TYPE_CHECKING:
    import pyarrow

Which = str | int  # "all", "first", "last", or a number from 0 on
HOST = ("", "task")


class Spans(Sequence[Span]):
    """Spans in the order of their starts. Every question gives a smaller set, which knows the whole it came from.

    They lie in columns, and `rows` are places in them; an object is made of a span only where somebody looks at it.
    """

    def __init__(self, columns: SpanColumns, rows: Ints | None = None, whole: Spans | None = None) -> None:
        self._columns = columns
        self._rows = columns.by_start(rows) if whole is None or rows is None else rows
        self._whole = whole

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> Spans: ...
    def __getitem__(self, at: int | slice) -> Span | Spans:
        if isinstance(at, slice):
            return self._of(self._rows[at])
        return next(self._columns.objects(self._rows[[at]]))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Span]:
        return iter(self._objects)

    def __eq__(self, other: object) -> bool:
        return self._objects == list(other) if isinstance(other, (Spans, list)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} spans>"

    # -- which -----------------------------------------------------------------------------------------------------

    def where(self, test: Callable[[Span], Any]) -> Spans:
        """Those for which a function of yours says yes."""
        return self._of(self._rows[np.array([bool(test(span)) for span in self], bool)])

    def named(self, *patterns: str) -> Spans:
        """Of these names; `*` and `?` stand for anything."""
        return self._coded(
            "name",
            (
                code
                for name, code in self._columns.names.items()
                if any(name == one or fnmatchcase(name, one) for one in patterns)
            ),
        )

    def tagged(self, *keys: str, **tags: Any) -> Spans:
        """That have these tags, with any value or with this one."""
        wanted = {*keys, *tags}
        if not wanted:
            return self[:]
        columns = self._columns
        matching = [
            at
            for at, row in enumerate(self._rows.tolist())
            if row in columns.tags
            and wanted <= (known := columns.tags_of(row)).keys()
            and all(known[key] == value for key, value in tags.items())
        ]
        return self._of(self._rows[np.array(matching, np.int64)])

    def on(self, *timelines: str) -> Spans:
        """On these timelines: threads, tasks (`MainThread/Task-1`), devices (`tpu0`), queues (`tpu0_queue`)."""
        return self._coded("lane", (code for (label, _), code in self._columns.lanes.items() if label in timelines))

    def host(self) -> Spans:
        """On threads and tasks."""
        return self._of(self._rows[self._is_kind(*HOST)])

    def device(self) -> Spans:
        """On devices, without what waits for them."""
        return self._of(self._rows[self._is_kind("device")])

    def queued(self) -> Spans:
        """Waiting for a device."""
        return self._of(self._rows[self._is_kind("queue")])

    def at(self, step: Number | None = None, *, first: float | None = None, last: float | None = None) -> Spans:
        """Of one step, or of those from `first` to `last`."""
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
        """Left by an exception, or given up."""
        return self._of(self._rows[self._column("failed").astype(bool)])

    def first(self, name: str | None = None) -> Spans:
        return self._pick(name, "first")

    def last(self, name: str | None = None) -> Spans:
        return self._pick(name, "last")

    def nth(self, name: str | None, number: int) -> Spans:
        """The one at this place, from 0 on; none where there are fewer."""
        return self._pick(name, number)

    def longest(self, count: int) -> Spans:
        """At most so many, those that took longest, in the order they are in."""
        longest = np.argsort(-self._column("duration"), kind="stable")[:count]
        return self._of(self._rows[np.sort(longest)])

    def by_name(self) -> dict[str, Spans]:
        """The same, a set for each name."""
        known, codes = list(self._columns.names), self._column("name")
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(known))) if len(self) else np.zeros(len(known), np.int64)
        return {
            known[code]: self._of(self._rows[order[ends[code - 1] if code else 0 : ends[code]]])
            for code in _first_seen(codes)
        }

    def alone(self) -> Spans:
        """The same, as if there were no others around them."""
        return Spans(self._columns, self._rows)

    # -- around and inside -----------------------------------------------------------------------------------------

    def roots(self, name: str | None = None, which: Which = "all") -> Spans:
        """Those of threads and tasks that lie in no other of their own timeline."""
        return self._of(self._rows[self._is_kind(*HOST) & ~self._nesting.is_inside[self._rows]])._pick(name, which)

    def children(self, name: str | None = None, which: Which = "all") -> Spans:
        """What lies directly in these, on any timeline; `which` chooses for each of them."""
        rows, parents = self._nesting.children(self._rows)
        if name is not None:
            named = self._columns.column("name")[rows] == self._columns.names.get(name, -1)
            rows, parents = rows[named], parents[named]
        return self._of(rows[_chosen(parents, which)])

    def inside(self, name: str | None = None) -> Spans:
        """What lies in these at any depth."""
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
        """What these lie in directly, each once."""
        outer = self._nesting.outer[self._rows]
        return self._of(np.array(_first_seen(outer[outer >= 0]), np.int64))

    # -- how long --------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> list[float]:
        """Their durations."""
        return (self._column("duration") / 1e9).tolist()  # type: ignore[no-any-return]

    @property
    def names(self) -> list[str]:
        known = list(self._columns.names)
        return [known[code] for code in _first_seen(self._column("name"))]

    @property
    def timelines(self) -> list[str]:
        known = list(self._columns.lanes)
        return list(dict.fromkeys(known[code][0] for code in _first_seen(self._column("lane"))))

    @property
    def steps(self) -> list[Number]:
        """The steps they are of, in order."""
        steps = self._column("step")
        known = steps == steps
        _, at = np.unique(steps[known], return_index=True)
        return [step for step in self._columns.steps(self._rows[known][at]) if step is not None]

    @property
    def ranks(self) -> list[int]:
        """The ranks they are of, in order."""
        return sorted({rank for rank, _ in self._streams()})

    @property
    def attempts(self) -> list[int]:
        """The attempts they are of, in order."""
        return sorted({attempt for _, attempt in self._streams()})

    @property
    def reach(self) -> tuple[int, int]:
        """The first start and the last end."""
        return (int(self._column("start").min()), int(self._ends().max())) if len(self) else (0, 0)

    def lengths(self) -> dict[Number, int]:
        """Nanoseconds from the first start to the last end of each step."""
        steps = self._column("step")
        known = steps == steps
        found, place = np.unique(steps[known], return_inverse=True)
        begins, ends = np.full(len(found), np.iinfo(np.int64).max), np.full(len(found), np.iinfo(np.int64).min)
        np.minimum.at(begins, place, self._column("start")[known])
        np.maximum.at(ends, place, self._ends()[known])
        return dict(zip(self.steps, (ends - begins).tolist(), strict=True))

    def total(self) -> float:
        """Seconds of all together."""
        return int(self._column("duration").sum()) / 1e9

    def table(self, *, by_step: bool = True) -> list[Aggregate]:
        """Count, total, own time, p50, p95 and the longest, for each step, name and kind; or over all steps."""
        rows = self._columns.by_start(self._rows)
        return aggregate(self._columns, rows, self._nesting.own[rows], by_step=by_step)

    def own(self) -> float:
        """Seconds of these that no span inside them, on the same timeline, accounts for."""
        return int(self._nesting.own[self._rows].sum()) / 1e9

    def idle(self) -> dict[str, float]:
        """Seconds between the spans of each timeline."""
        labels: dict[str, int] = {}
        of_lanes = np.array([labels.setdefault(label, len(labels)) for label, _ in self._columns.lanes], np.int64)
        names = list(labels)
        found: dict[str, float] = {}
        if not len(self):
            return found
        timeline = self._column("stream") * len(names) + of_lanes[self._column("lane")]
        starts, ends = self._column("start"), self._ends()
        for one in _first_seen(timeline):
            mine = timeline == one
            begins, until = union(starts[mine], ends[mine])
            name = names[one % len(names)]
            found[name] = found.get(name, 0.0) + int((begins[1:] - until[:-1]).sum()) / 1e9
        return found

    def overlap(self) -> float:
        """Seconds in which a host and a device were both at work."""
        host, device = self._is_kind(*HOST), self._is_kind("device")
        # What two have in common is what both have, less what they have together.
        starts, ends = self._column("start"), self._ends()
        return (
            sum(
                sign * covered(starts[chosen], ends[chosen])
                for sign, chosen in ((1, host), (1, device), (-1, host | device))
            )
            / 1e9
        )

    def wait(self) -> float:
        """Seconds that the work of these had been given to devices before they took it up."""
        outer = self._nesting.outer[self._rows]
        given = (outer >= 0) & self._is_kind("device")
        return int((self._column("start")[given] - self._columns.column("start")[outer[given]]).sum()) / 1e9

    def metrics(self, step: Number) -> records.Row:
        """The row `perf/…` of a step, as `run.trace(metrics=True)` logs it."""
        return timing.times(list(self.at(step)))

    # -- as other things -------------------------------------------------------------------------------------------

    def to_numpy(self) -> dict[str, Array]:
        """A column for each field but the tags; a missing step is NaN."""
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
        from chiplog.store.spans.arrow import to_table  # the rest is asked without pyarrow

        return to_table(self._columns, self._rows, with_stream=True)

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def whole(self) -> Spans:
        """All spans these were chosen from."""
        return self if self._whole is None else self._whole

    @property
    def _nesting(self) -> Nesting:
        return self.whole._nested

    @cached_property
    def _nested(self) -> Nesting:
        return Nesting(self._columns, self._rows)

    @cached_property
    def _objects(self) -> list[Span]:
        return list(self._columns.objects(self._rows))

    def _column(self, name: str) -> Any:
        return self._columns.column(name)[self._rows]

    def _ends(self) -> Ints:
        ends: Ints = self._column("start") + self._column("duration")
        return ends

    def _streams(self) -> list[tuple[int, int]]:
        known = list(self._columns.streams)
        return [known[code] for code in np.unique(self._column("stream")).tolist()]

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


def _chosen(groups: Ints, which: Which) -> Bools:
    """Which places are chosen of groups that stand one after another: all, or one of each."""
    if which == "all":
        return np.ones(len(groups), bool)
    if which == "last":
        return np.append(groups[1:] != groups[:-1], np.ones(min(1, len(groups)), bool))
    number = 0 if which == "first" else which
    if not isinstance(number, int):
        raise ValueError(f"which = {which!r}: there are 'all', 'first', 'last', and numbers from 0 on")
    chosen: Bools = np.arange(len(groups)) - np.searchsorted(groups, groups) == number
    return chosen


def _first_seen(codes: Array) -> list[int]:
    """Each code once, in the order in which they first come."""
    found, at = np.unique(codes, return_index=True)
    return found[np.argsort(at)].tolist()  # type: ignore[no-any-return]
