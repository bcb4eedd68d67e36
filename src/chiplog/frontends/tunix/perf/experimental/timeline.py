"""Timelines: the spans of a thread, a task, a device or a device's queue, by step.

A tracer fills its own. They can also be filled by hand: to test an export function, or for work outside a tracer.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import count

from chiplog.core import messages
from chiplog.frontends.tunix.perf import trace_files
from chiplog.frontends.tunix.perf.experimental.span import Span
from chiplog.frontends.tunix.perf.shared_tracer import Arrivals, Recording
from chiplog.store.spans.span import StoredSpan

__all__ = ["AsyncTimeline", "BatchAsyncTimelines", "Span", "Timeline"]

MOST = 50_000  # spans that a timeline keeps; the journal has older ones
STEPS = 1000  # and steps
HOST = "host-"
QUEUE = "_queue"

_numbers = count(1 << 40)  # of spans that are recorded by hand, beyond those of any tracer


class Timeline:
    """The spans of a thread, a task, a device or a device's queue, by step; an export ends a step.

    A late span of a device is in the step in which it started. Old steps are dropped.
    """

    def __init__(self, id: str, born: float) -> None:
        self.id, self.born = id, born
        self.kind = ""  # "" for a thread; task, device, queue
        self._ids = count()
        self._steps: dict[int, dict[int, Span]] = {}  # by number, oldest first
        self._current: dict[int, Span] = {}
        self._kept = 0
        self.arrivals = Arrivals(MOST)
        self._open: list[Span] = []  # started by hand, innermost last
        self._numbers: dict[int, int] = {}  # of open spans that were started by hand, by id
        self._lock = threading.RLock()

    @property
    def cur_step(self) -> dict[int, Span]:
        """The spans that have finished since the last export, by id."""
        return dict(self._current)

    @property
    def committed_steps(self) -> list[dict[int, Span]]:
        """The earlier steps, oldest first."""
        return list(self._steps.values())

    @property
    def all_steps(self) -> list[dict[int, Span]]:
        return [*self.committed_steps, self.cur_step]

    @property
    def root(self) -> Span:
        """A span over the whole timeline, with the outermost spans as its `children`, and so on."""
        root = Span("root", self.born, -1)
        spans = {span.id: span for step in self.all_steps for span in step.values()}
        for span in spans.values():
            span.children = []
        for span in sorted(spans.values(), key=lambda one: (one.begin, one.id)):
            outer = root if span.parent_id is None else spans.get(span.parent_id, root)
            outer.children.append(span)
        return root

    def __repr__(self) -> str:
        lines = [f"Timeline({self.id}, {self.born:.6f})"]
        committed = ((f"Committed Step -{back}", step) for back, step in enumerate(reversed(self.committed_steps)))
        for name, step in [("Current Step", self._current), *committed]:
            lines += [f"{name}:", *(self._line(span) for span in step.values())]
        return "\n".join(lines)

    def _line(self, span: Span) -> str:
        times = f"{span.begin - self.born:.6f}, {span.end - self.born:.6f}"
        parent = "" if span.parent_id is None else f" (parent={span.parent_id})"
        return f"  [{span.id}] {span.name}: {times}{parent}{f', tags={span.tags}' if span.tags else ''}"

    def add(self, recorded: StoredSpan, span: Span, step: int | None) -> None:
        """Add a span to the current step or an earlier one."""
        late = None if step is None else self._steps.get(step)
        if late is not None:
            late[span.id] = span
            self._kept += 1
        else:
            self._current[span.id] = span
        self.arrivals.add((recorded,))
        if len(self._current) > MOST:
            self._current.pop(next(iter(self._current)))

    def start_span(self, name: str, begin: float, tags: Mapping[str, object] | None = None) -> Span:
        """Start a span by hand, inside the innermost open one; times are those of `time.perf_counter`."""
        with self._lock:
            self._open.append(self._new(name, begin, tags))
            return self._open[-1]

    def stop_span(self, end: float) -> None:
        """End the innermost open span."""
        with self._lock:
            if not self._open:
                raise ValueError(f"{self.id}: no more spans to end.")
            span = self._open[-1]
            if end < span.begin:
                raise ValueError(
                    f"{self.id}: span '{span.name}' ended at {end:.6f} before it began at {span.begin:.6f}."
                )
            self._open.pop()
            self._end(span, end)

    def commit_step(self) -> None:
        """End the current step by hand; an open span belongs to the step in which it ends."""
        with self._lock:
            self.commit(max(self._steps, default=-1) + 1)

    def next_id(self) -> int:
        return next(self._ids)

    def commit(self, number: int) -> None:
        """End the current step."""
        self._steps[number] = self._current
        self._kept += len(self._current)
        self._current = {}
        while (self._kept > MOST and len(self._steps) > 1) or len(self._steps) > STEPS:
            self._kept -= len(self._steps.pop(next(iter(self._steps))))

    def _new(self, name: str, begin: float, tags: Mapping[str, object] | None) -> Span:
        parent = self._open[-1].id if self._open else None
        return Span(name, begin, self.next_id(), parent, dict(tags or {}))

    def _end(self, span: Span, end: float, error: str = "") -> None:
        span.end, span.error = end, error
        number = self._numbers.pop(span.id, None) or next(_numbers)
        parent = 0 if span.parent_id is None else self._numbers.setdefault(span.parent_id, next(_numbers))
        kind = self.kind or ("" if self.id.startswith(HOST) else "queue" if self.id.endswith(QUEUE) else "device")
        lane = self.id.removeprefix(HOST)
        self.add(trace_files.recorded(span, number, parent, lane, kind), span, None)


class AsyncTimeline(Timeline):
    """A timeline of work that ends when what it waits for is done; callers do not wait."""

    def __init__(self, id: str, born: float) -> None:
        super().__init__(id, born)
        self._recording = Recording(zero=0)
        self._lock = self._recording.lock  # which is held when `_read` is called
        self._recording.tracer.let_overlap(0, "all")
        self._recording.read(0, self._read)
        self._pending: dict[int, Span] = {}  # by the number of their work

    def span(
        self, name: str, thread_span_begin: float, waitlist: object, tags: Mapping[str, object] | None = None
    ) -> None:
        """Record work since a time of `time.perf_counter`, until arrays, tensors or futures are done."""
        work = self._recording.work(name, self.id, thread_span_begin, waitlist)
        with self._lock:
            self._pending[work.id] = self._new(name, thread_span_begin, tags)
        self._recording.tracer.launch(work)

    def wait_pending_spans(self) -> None:
        """Wait for pending work; what is not done after half a minute is marked as unfinished."""
        self._recording.wait_for_work()

    @property
    def cur_step(self) -> dict[int, Span]:
        self._recording.collect()
        return super().cur_step

    def commit(self, number: int) -> None:
        self._recording.collect()
        super().commit(number)

    def _read(self, spans: Sequence[StoredSpan]) -> None:
        with self._lock:
            for one in spans:
                if one.error:
                    messages.once(f"tunix work {one.error}", f"the work of span {one.name!r} failed: {one.error}")
                self._end(self._pending.pop(one.parent), self._recording.seconds(one.end), one.error)


class BatchAsyncTimelines:
    """Several timelines, for work on several devices at once."""

    def __init__(self, timelines: Sequence[AsyncTimeline]) -> None:
        self._timelines = list(timelines)

    def span(
        self, name: str, thread_span_begin: float, waitlist: object, tags: Mapping[str, object] | None = None
    ) -> None:
        for timeline in self._timelines:
            timeline.span(name, thread_span_begin, waitlist, tags)
