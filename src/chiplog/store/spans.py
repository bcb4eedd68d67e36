"""Stored spans and questions about them.

>>> spans = chiplog.read("latest").spans()
>>> spans.named("rollout").on("tpu0").at(step=100)
>>> spans.roots("global_step", "last").children("micro_batch").seconds
>>> spans.device().idle()
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import msgspec

from chiplog.core import records
from chiplog.metrics import timing
from chiplog.metrics.timing import Aggregate

if TYPE_CHECKING:
    import numpy
    import pyarrow

Which = str | int  # "all", "first", "last", or a number from 0 on

COLUMNS = (
    *("id", "parent", "name", "thread", "kind", "start", "duration", "step", "tags", "failed", "error"),
    *("rank", "attempt"),
)


class Span(msgspec.Struct, frozen=True):
    """A finished stretch of work; `start` is wall-clock nanoseconds, `thread` the timeline it lies on."""

    id: int
    parent: int
    name: str
    thread: str
    start: int
    duration: int
    step: int | float | None = None
    tags: dict[str, Any] = {}
    failed: bool = False
    rank: int = 0
    kind: str = ""  # of the timeline: "" for a thread, task, device, queue
    error: str = ""
    attempt: int = 0

    @property
    def end(self) -> int:
        return self.start + self.duration

    @property
    def seconds(self) -> float:
        return self.duration / 1e9

    @property
    def key(self) -> tuple[int, int, int]:
        """What tells it from all other spans of the run."""
        return self.rank, self.attempt, self.id

    @property
    def parent_key(self) -> tuple[int, int, int]:
        return self.rank, self.attempt, self.parent

    @property
    def timeline(self) -> tuple[int, int, str]:
        return self.rank, self.attempt, self.thread


class Spans(Sequence[Span]):
    """Spans in the order of their begins. Every question gives a smaller set, which knows the whole it came from."""

    def __init__(self, spans: Iterable[Span], whole: Spans | None = None) -> None:
        self._spans = list(spans) if whole is not None else sorted(spans, key=lambda span: span.start)
        self._whole = whole

    @overload
    def __getitem__(self, at: int) -> Span: ...
    @overload
    def __getitem__(self, at: slice) -> Spans: ...
    def __getitem__(self, at: int | slice) -> Span | Spans:
        return self._of(self._spans[at]) if isinstance(at, slice) else self._spans[at]

    def __len__(self) -> int:
        return len(self._spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __eq__(self, other: object) -> bool:
        return self._spans == list(other) if isinstance(other, (Spans, list)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} spans>"

    # -- which -----------------------------------------------------------------------------------------------------

    def where(self, test: Callable[[Span], Any]) -> Spans:
        """Those for which a function of yours says yes."""
        return self._of(span for span in self._spans if test(span))

    def named(self, *patterns: str) -> Spans:
        """Of these names; `*` and `?` stand for anything."""
        known = {span.name for span in self._spans}
        wanted = {name for name in known if any(name == one or fnmatchcase(name, one) for one in patterns)}
        return self.where(lambda span: span.name in wanted)

    def tagged(self, *keys: str, **tags: Any) -> Spans:
        """That have these tags, with any value or with this one."""
        return self.where(
            lambda span: (
                all(key in span.tags for key in keys)
                and all(key in span.tags and span.tags[key] == value for key, value in tags.items())
            )
        )

    def on(self, *timelines: str) -> Spans:
        """On these timelines: threads, tasks (`MainThread/Task-1`), devices (`tpu0`), queues (`tpu0_queue`)."""
        return self.where(lambda span: span.thread in timelines)

    def host(self) -> Spans:
        """On threads and tasks."""
        return self.where(lambda span: span.kind in ("", "task"))

    def device(self) -> Spans:
        """On devices, without what waits for them."""
        return self.where(lambda span: span.kind == "device")

    def queued(self) -> Spans:
        """Waiting for a device."""
        return self.where(lambda span: span.kind == "queue")

    def at(self, step: int | float | None = None, *, first: float | None = None, last: float | None = None) -> Spans:
        """Of one step, or of those from `first` to `last`."""
        if step is not None:
            return self.where(lambda span: span.step == step)
        low, high = float("-inf") if first is None else first, float("inf") if last is None else last
        return self.where(lambda span: span.step is not None and low <= span.step <= high)

    def of(self, *, rank: int | None = None, attempt: int | None = None) -> Spans:
        return self.where(lambda span: rank in (None, span.rank) and attempt in (None, span.attempt))

    def failed(self) -> Spans:
        """Left by an exception, or given up."""
        return self.where(lambda span: span.failed)

    def first(self, name: str | None = None) -> Spans:
        return self._pick(name, "first")

    def last(self, name: str | None = None) -> Spans:
        return self._pick(name, "last")

    def nth(self, name: str | None, number: int) -> Spans:
        """The one at this place, from 0 on; none where there are fewer."""
        return self._pick(name, number)

    # -- around and inside -----------------------------------------------------------------------------------------

    def roots(self, name: str | None = None, which: Which = "all") -> Spans:
        """Those of threads and tasks that lie in no other of their own timeline."""
        known = self.whole._known
        found = [
            span
            for span in self._spans
            if span.kind in ("", "task")
            and ((outer := known.get(span.parent_key)) is None or outer.timeline != span.timeline)
        ]
        return self._of(found)._pick(name, which)

    def children(self, name: str | None = None, which: Which = "all") -> Spans:
        """What lies directly in these, on any timeline; `which` chooses for each of them."""
        inside = self.whole._children
        found: list[Span] = []
        for span in self._spans:
            found += self._of(inside.get(span.key, ()))._pick(name, which)
        return self._of(found)

    def inside(self, name: str | None = None) -> Spans:
        """What lies in these at any depth."""
        found: dict[Hashable, Span] = {}
        level = self.children()
        while level:
            new = [span for span in level if span.key not in found]
            found.update((span.key, span) for span in new)
            level = self._of(new).children()
        return self._of(sorted(found.values(), key=lambda span: span.start))._pick(name, "all")

    def parents(self) -> Spans:
        """What these lie in directly, each once."""
        known = self.whole._known
        found = {span.parent_key: known[span.parent_key] for span in self._spans if span.parent_key in known}
        return self._of(found.values())

    # -- how long --------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> list[float]:
        """Their durations."""
        return [span.seconds for span in self._spans]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(span.name for span in self._spans))

    @property
    def timelines(self) -> list[str]:
        return list(dict.fromkeys(span.thread for span in self._spans))

    @property
    def steps(self) -> list[int | float]:
        """The steps they are of, in order."""
        return sorted({span.step for span in self._spans if span.step is not None})

    @property
    def reach(self) -> tuple[int, int]:
        """The first begin and the last end."""
        return (self._spans[0].start, max(span.end for span in self._spans)) if self._spans else (0, 0)

    def lengths(self) -> dict[int | float, int]:
        """Nanoseconds from the first begin to the last end of each step."""
        found: dict[int | float, tuple[int, int]] = {}
        for span in self._spans:
            if span.step is not None:
                begin, end = found.get(span.step, (span.start, span.end))
                found[span.step] = min(begin, span.start), max(end, span.end)
        return {step: found[step][1] - found[step][0] for step in sorted(found)}

    def total(self) -> float:
        """Seconds of all together."""
        return sum(span.duration for span in self._spans) / 1e9

    def table(self, *, by_step: bool = True) -> list[Aggregate]:
        """Count, total, own time, p50, p95 and the longest, for each step and name; or over all steps."""
        own = timing.own_times(self.whole) if self._whole is not None else None
        return timing.aggregate(self._spans, by_step=by_step, own=own)

    def own(self) -> float:
        """Seconds of these that no span inside them, on the same timeline, accounts for."""
        own = timing.own_times(self.whole)
        return sum(own[span.key] for span in self._spans) / 1e9

    def idle(self) -> dict[str, float]:
        """Seconds between the spans of each timeline."""
        found: dict[str, float] = {}
        for lane, seconds in timing.idle(self._spans).items():
            name = str(lane[2])  # type: ignore[index]
            found[name] = found.get(name, 0.0) + seconds
        return found

    def overlap(self) -> float:
        """Seconds in which a host and a device were both at work."""
        return timing.overlap(self._spans)

    def wait(self) -> float:
        """Seconds that the work of these had been given to devices before they took it up."""
        return timing.wait(self._spans, {span.key: span.start for span in self.whole})

    def metrics(self, step: int | float) -> records.Row:
        """The row `perf/…` of a step, as `run.trace(metrics=True)` logs it."""
        return timing.times(list(self.at(step)))

    # -- as other things -------------------------------------------------------------------------------------------

    def to_numpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """A column for each field but the tags; a missing step is NaN."""
        import numpy as np

        columns: dict[str, Any] = {
            name: [getattr(span, name) for span in self._spans] for name in COLUMNS if name not in ("tags", "step")
        }
        columns["step"] = [float("nan") if span.step is None else float(span.step) for span in self._spans]
        return {name: np.array(column) for name, column in columns.items()}

    def to_arrow(self) -> pyarrow.Table:
        """The columns of `.spans.parquet` (docs/format.md), with rank and attempt; tags as JSON."""
        from chiplog.store.parts import spans_table

        return spans_table(self._spans, whose=True)

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def whole(self) -> Spans:
        """All spans these were chosen from."""
        return self if self._whole is None else self._whole

    def _of(self, spans: Iterable[Span]) -> Spans:
        return Spans(spans, self.whole)

    def _pick(self, name: str | None, which: Which) -> Spans:
        found = self if name is None else self._exactly(name)
        if which == "first":
            return found[:1]
        if which == "last":
            return found[-1:]
        if isinstance(which, int):
            return found[which : which + 1] if which >= 0 else found[:0]
        if which != "all":
            raise ValueError(f"which = {which!r}: there are 'all', 'first', 'last', and numbers from 0 on")
        return found[:]

    def _exactly(self, name: str) -> Spans:
        return self.where(lambda span: span.name == name)

    @cached_property
    def _known(self) -> dict[Hashable, Span]:
        return {span.key: span for span in self._spans}

    @cached_property
    def _children(self) -> dict[Hashable, list[Span]]:
        found: dict[Hashable, list[Span]] = defaultdict(list)
        for span in self._spans:
            if span.parent:
                found[span.parent_key].append(span)
        return found


def expand(batch: records.Spans, rank: int, attempt: int) -> Iterator[Span]:
    """The spans of a record, one object each; none of a record that contradicts itself."""
    if not _whole(batch):
        return
    failed = set(batch.failed)
    for name, thread, ident, parent, start, duration, step in zip(
        batch.name, batch.thread, batch.id, batch.parent, batch.start, batch.duration, batch.step, strict=True
    ):
        lane = batch.threads[thread]
        yield Span(
            ident,
            parent,
            batch.names[name],
            lane,
            start,
            duration,
            step,
            batch.tags.get(str(ident), {}),
            ident in failed,
            rank,
            batch.kinds.get(lane, ""),
            batch.errors.get(str(ident), ""),
            attempt,
        )


def _whole(batch: records.Spans) -> bool:
    """Whether every column is as long as the others and every index points at something."""
    columns = (batch.name, batch.thread, batch.id, batch.parent, batch.start, batch.duration, batch.step)
    return (
        len({len(column) for column in columns}) == 1
        and all(0 <= name < len(batch.names) for name in batch.name)
        and all(0 <= thread < len(batch.threads) for thread in batch.thread)
    )
