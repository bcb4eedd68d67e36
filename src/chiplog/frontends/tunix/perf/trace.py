"""The tracer of the first version: spans in groups, on threads and devices."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from math import inf

from chiplog.core.tracing.span import Span as Opening
from chiplog.frontends.tunix.perf.metrics import PerfSpanQuery
from chiplog.frontends.tunix.perf.shared_tracer import (
    NO_SPAN,
    Arrivals,
    NoSpan,
    NoTracer,
    OpenSpan,
    Recording,
    device_names,
    outer_of,
)
from chiplog.frontends.tunix.perf.span import Span, SpanGroup
from chiplog.frontends.tunix.perf.trace_export import ExportCall
from chiplog.metrics.step_values.reducers import MetricsT
from chiplog.store.spans.span import StoredSpan

VERSION = 1
MOST = 50_000  # spans that a query sees; the journal has older ones
STEPS = 8  # exports whose spans a query sees
HOSTS = ("", "task")
THREAD = "thread-"


class NoopTracer(NoTracer):
    """Records nothing."""

    def span_group(self, name: str) -> NoSpan:  # noqa: ARG002
        return NO_SPAN


class PerfTracer:
    """Records spans and groups of spans; create it on the main thread.

    `export` calls your function with a query over the recorded spans, and returns its metrics.
    """

    def __init__(
        self,
        devices: object = None,
        export_fn: Callable[[PerfSpanQuery], MetricsT] | None = None,
        *,
        recording: Recording | None = None,
        born: float | None = None,
    ) -> None:
        self._recording = recording or Recording()
        self._born = time.perf_counter() if born is None else born
        self._main = THREAD + threading.current_thread().name
        self._first = True  # no group has been opened yet
        self._devices = device_names(devices)
        self._export = ExportCall("perf", export_fn, self._recording, lambda: query(self))
        self._groups: dict[int, Opening] = {}  # open ones, and those that a query sees, by id
        self._done: deque[list[StoredSpan]] = deque(maxlen=STEPS)  # one list per export
        self._new: deque[StoredSpan] = deque(maxlen=MOST)  # since the last export
        self._arrivals = Arrivals(MOST)
        self._recording.read(VERSION, self._read)

    @property
    def all_devices(self) -> Sequence[str]:
        """The devices it was created with, and those of the spans that it still has."""
        names = [span.thread for span in self._spans() if span.kind == "device"]
        return list(dict.fromkeys([*self._devices, *names]))

    def span(self, name: str, devices: object = None) -> OpenSpan:
        """Time work on this thread and, until what is passed to `device_end` is done, on devices."""
        return OpenSpan(self._recording, VERSION, name, devices, None)

    def span_group(self, name: str) -> _OpenGroup:
        """Open a group of spans, on all timelines."""
        return _OpenGroup(self, self._recording, name)

    def synchronize(self) -> None:
        """Wait until the devices have finished their work."""
        self._recording.wait_for_work()

    def print(self) -> None:
        """Print every timeline as a tree."""
        self.synchronize()
        recorded = query(self)
        for timeline in recorded.get_timeline_ids():
            (root,) = recorded().timeline(timeline).get()
            print(f"\n[{timeline}]\n{root.picture(self._born)}", end="")

    def export(self) -> MetricsT:
        """Return what the export function makes of the recorded spans; does not wait for devices."""
        metrics = self._export()
        if self._export.function is not None:
            with self._recording.lock:
                self._done.append(list(self._new))
                self._new.clear()
                self._forget_groups({span.id for step in self._done for span in step})
        return metrics

    def _spans(self) -> Iterator[StoredSpan]:
        for step in list(self._done):
            yield from step
        yield from list(self._new)

    def _open_groups(self) -> Iterator[StoredSpan]:
        """Yield the groups that have not ended, marked by a negative duration."""
        for number, group in list(self._groups.items()):
            if not group.stop and group.lane is not None:
                outer = outer_of(group, VERSION)
                parent = 0 if outer is None else outer.id
                yield StoredSpan(number, parent, group.name, group.lane.label, group.start + self._recording.zero, -1)

    def _read(self, spans: list[StoredSpan]) -> None:
        self._new.extend(spans)
        self._arrivals.add(spans)

    def _start_group(self, group: Opening) -> None:
        if self._first and group.lane is not None:
            self._first, self._main = False, THREAD + group.lane.label  # it may be a task of the main thread
        self._groups[group.id] = group
        if len(self._groups) > MOST:
            self._forget_groups(())

    def _forget_groups(self, kept: Container[int]) -> None:
        self._groups = {number: group for number, group in self._groups.items() if number in kept or not group.stop}


def query(tracer: PerfTracer) -> PerfSpanQuery:
    """Return a query over a tracer's spans; a function, since tracers have only the documented methods."""
    recording = tracer._recording
    recording.collect()
    groups = set(tracer._groups)
    with recording.lock:
        spans = [*tracer._spans(), *tracer._open_groups()]
    forest = Forest(spans, groups, tracer._main, tracer._born, recording.seconds)
    return PerfSpanQuery(forest.tree, forest.timelines(), tracer._main, tracer._devices, tracer._arrivals)


class _OpenGroup(OpenSpan):
    __slots__ = ("_tracer",)

    def __init__(self, tracer: PerfTracer, recording: Recording, name: str) -> None:
        super().__init__(recording, VERSION, name, None, None)
        self._tracer = tracer

    def __enter__(self) -> _OpenGroup:
        super().__enter__()
        if isinstance(self.span, Opening):
            self._tracer._start_group(self.span)
        return self


class Forest:
    """The trees of some spans; `groups` are the ids of those that were opened as groups."""

    def __init__(
        self, spans: Iterable[StoredSpan], groups: set[int], main: str, born: float, seconds: Callable[[int], float]
    ) -> None:
        self._spans = sorted(spans, key=lambda span: (span.start, -span.duration, span.id))  # outer ones first
        self._main, self._born, self._seconds = main, born, seconds
        hosts = [span for span in self._spans if span.kind in HOSTS]
        self._hosts = {span.id: span for span in hosts}
        self._opened = groups
        self._groups = groups | {span.parent for span in hosts if span.parent in self._hosts}

    def timelines(self) -> list[str]:
        """Return the ids of all timelines: `thread-` and its name for a host, the name of a device."""
        return list(dict.fromkeys([self._main, *(timeline_of(span) for span in self._spans)]))

    def tree(self, timeline: str) -> SpanGroup:
        root = SpanGroup("root", begin=self._born)
        nodes: dict[int, SpanGroup] = {}
        placed: list[tuple[float, float, SpanGroup]] = []  # the main thread's groups by their starts
        busy = -inf  # until when a device works
        with_part = {span.parent for span in self._spans if span.kind not in HOSTS and span.thread == timeline}
        for span in self._spans:
            lane = timeline_of(span)
            begin, end = self._seconds(span.start), _end(span, self._seconds)
            grouped = span.id in self._groups and (span.id in self._opened or span.id not in with_part)
            if span.kind in HOSTS and grouped and lane in (self._main, timeline):
                outer = self._around(span, nodes) or (root if lane == self._main else _at(placed, begin, root))
                as_span = lane == timeline and span.id not in self._opened
                nodes[span.id] = group = SpanGroup(span.name, outer, begin, end, as_span)
                group.error = span.error
                if lane == self._main:
                    placed.append((begin, end, group))
            elif lane == timeline:
                outer = self._around(span, nodes) or (root if lane == self._main else _at(placed, begin, root))
                if span.kind == "device":  # one after another, even if they may overlap
                    begin = min(max(begin, busy), end)
                    busy = max(busy, end)
                outer.inner.append(Span(span.name, begin, end, span.error))
        return root

    def _around(self, span: StoredSpan, nodes: dict[int, SpanGroup]) -> SpanGroup | None:
        """Return the nearest group around a span."""
        parent = span.parent
        while parent and parent not in nodes and parent in self._hosts:
            parent = self._hosts[parent].parent
        return nodes.get(parent)


def timeline_of(span: StoredSpan) -> str:
    return f"{THREAD}{span.thread}" if span.kind in HOSTS else span.thread


def _end(span: StoredSpan, seconds: Callable[[int], float]) -> float:
    return inf if span.duration < 0 else seconds(span.end)


def _at(placed: Sequence[tuple[float, float, SpanGroup]], moment: float, root: SpanGroup) -> SpanGroup:
    """Return the innermost group of the main thread that was open at a moment."""
    for at in range(bisect_right(placed, moment, key=lambda one: one[0]) - 1, -1, -1):
        if placed[at][1] > moment:
            return placed[at][2]
    return root
