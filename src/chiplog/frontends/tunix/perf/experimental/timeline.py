"""Timelines: the spans of a thread, a task, a device or a device's queue, by step.

A tracer fills its own. They can be made by hand too: to test an export function, or for work that no tracer saw.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from time import monotonic_ns
from typing import Any

from chiplog.core import messages, records
from chiplog.core.tracing.span import Span as Opening
from chiplog.core.tracing.tracer import Tracer
from chiplog.frontends.tunix.perf.experimental.span import Span
from chiplog.frontends.tunix.perf.recorder import SETTLE, Arrivals
from chiplog.runtime.devices.watcher import DeviceWatcher
from chiplog.store.spans.span import Span as Recorded
from chiplog.store.spans.span import expand

__all__ = ["AsyncTimeline", "BatchAsyncTimelines", "Span", "Timeline"]

MOST = 50_000  # spans of a timeline that can be looked at; older ones are in the journal
STEPS = 1000  # and steps
HOST = "host-"
QUEUE = "_queue"

_numbers = count(1 << 40)  # of spans that are made by hand, beyond those of any tracer


class Timeline:
    """The spans of a thread, a task, a device or a device's queue, by step; a step is what lies between two exports.

    A device's span that was late is in the step in which it was begun. Old steps are let go.
    """

    def __init__(self, id: str, born: float) -> None:
        self.id, self.born = id, born
        self.kind = ""  # of a thread; task, device or queue
        self._ids = count()
        self._steps: dict[int, dict[int, Span]] = {}  # by number, oldest first
        self._current: dict[int, Span] = {}
        self._kept = 0
        self.arrivals = Arrivals(MOST)  # late or not
        self._open: list[Span] = []  # that were begun by hand, innermost last
        self._recorded: dict[int, int] = {}  # the numbers of spans that were made by hand, by id
        self._lock = threading.RLock()

    @property
    def cur_step(self) -> dict[int, Span]:
        """What has finished since the last export, by id."""
        return dict(self._current)

    @property
    def committed_steps(self) -> list[dict[int, Span]]:
        """The steps before, oldest first."""
        return list(self._steps.values())

    @property
    def all_steps(self) -> list[dict[int, Span]]:
        return [*self.committed_steps, self.cur_step]

    @property
    def root(self) -> Span:
        """One span over all that is here, with the outermost ones as its `children`, theirs in them, and so on."""
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
        for name, step in [("Current Step", self._current), *self._named()]:
            lines += [f"{name}:", *(self._line(span) for span in step.values())]
        return "\n".join(lines)

    def _named(self) -> Iterator[tuple[str, dict[int, Span]]]:
        for back, step in enumerate(reversed(self.committed_steps)):
            yield f"Committed Step -{back}", step

    def _line(self, span: Span) -> str:
        times = f"{span.begin - self.born:.6f}, {span.end - self.born:.6f}"
        parent = "" if span.parent_id is None else f" (parent={span.parent_id})"
        return f"  [{span.id}] {span.name}: {times}{parent}{f', tags={span.tags}' if span.tags else ''}"

    def add(self, recorded: Recorded, span: Span, step: int | None) -> None:
        """Take a span along, into the current step or an earlier one."""
        late = None if step is None else self._steps.get(step)
        if late is not None:
            late[span.id] = span
            self._kept += 1
        else:
            self._current[span.id] = span
        self.arrivals.add((recorded,))
        if len(self._current) > MOST:
            self._current.pop(next(iter(self._current)))

    def start_span(self, name: str, begin: float, tags: Mapping[str, Any] | None = None) -> Span:
        """Begin a span by hand, inside the one that was begun last; times are those of `time.perf_counter`."""
        with self._lock:
            parent = self._open[-1].id if self._open else None
            self._open.append(Span(name, begin, self.next_id(), parent, dict(tags or {})))
            return self._open[-1]

    def stop_span(self, end: float) -> None:
        """End the innermost one that was begun by hand."""
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
        """End the current step by hand; a span that is open is in the step in which it ends."""
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

    def _end(self, span: Span, end: float, error: str = "") -> None:
        span.end, span.error = end, error
        number = self._recorded.pop(span.id, None) or next(_numbers)
        parent = 0 if span.parent_id is None else self._number(span.parent_id)
        kind = self.kind or ("" if self.id.startswith(HOST) else "queue" if self.id.endswith(QUEUE) else "device")
        start, stop = (round(second * 1e9) for second in (span.begin, end))
        step = span.tags.get("step")
        self.add(
            Recorded(
                number,
                parent,
                span.name,
                self.id.removeprefix(HOST),
                start,
                stop - start,
                step if isinstance(step, int) else None,
                dict(span.tags),
                bool(error),
                kind=kind,
                error=error,
            ),
            span,
            None,
        )

    def _number(self, id: int) -> int:
        return self._recorded.setdefault(id, next(_numbers))


class AsyncTimeline(Timeline):
    """A timeline of work that ends when what it waits for is done; who asks does not wait."""

    def __init__(self, id: str, born: float) -> None:
        super().__init__(id, born)
        self._tracer = Tracer(DeviceWatcher())
        self._tracer.let_overlap(0, "all")
        self._given: dict[int, Span] = {}  # works that are under way, by their number

    def span(self, name: str, thread_span_begin: float, waitlist: Any, tags: Mapping[str, Any] | None = None) -> None:
        """Work that was given at a time of `time.perf_counter`, until arrays, tensors or futures are done."""
        with self._lock:
            parent = self._open[-1].id if self._open else None
            span = Span(name, thread_span_begin, self.next_id(), parent, dict(tags or {}))
            work = Opening(self._tracer, name, None, self.id, start=round(thread_span_begin * 1e9), stop=monotonic_ns())
            if waitlist is not None:
                work.waits = [self._tracer.hold(waitlist)]
            self._given[work.id] = span
        self._tracer.launch(work)

    def wait_pending_spans(self) -> None:
        """Wait for the work that is under way; what is not done after half a minute is marked as unfinished."""
        self._tracer.settle(SETTLE)
        self._arrive()

    @property
    def cur_step(self) -> dict[int, Span]:
        self._arrive()
        return super().cur_step

    def commit(self, number: int) -> None:
        self._arrive()
        super().commit(number)

    def _arrive(self) -> None:
        self._tracer.poll()
        with self._lock:
            while (batch := self._tracer.take(0)) is not None:
                for one in expand(records.Spans(0, 0, **batch), 0, 0):
                    if one.error:
                        messages.once(f"tunix work {one.error}", f"the work of span {one.name!r} failed: {one.error}")
                    self._end(self._given.pop(one.parent), one.end / 1e9, one.error)


class BatchAsyncTimelines:
    """Several of them, for work on several devices at once."""

    def __init__(self, timelines: Sequence[AsyncTimeline]) -> None:
        self._timelines = list(timelines)

    def span(self, name: str, thread_span_begin: float, waitlist: Any, tags: Mapping[str, Any] | None = None) -> None:
        for timeline in self._timelines:
            timeline.span(name, thread_span_begin, waitlist, tags)
