"""The tracer of the first version: spans in groups, on threads and devices."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence

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
from chiplog.frontends.tunix.perf.span_tree import THREAD, Forest
from chiplog.frontends.tunix.perf.trace_export import ExportCall
from chiplog.metrics.step_values.reducers import MetricsT
from chiplog.store.spans.span import Span as Recorded

VERSION = 1
MOST = 50_000  # spans that a query sees; the journal has older ones
STEPS = 8  # exports whose spans a query sees


class NoopTracer(NoTracer):
    """Records nothing."""

    def span_group(self, name: str) -> NoSpan:  # noqa: ARG002
        return NO_SPAN


class PerfTracer:
    """Records spans and groups of spans; create it on the main thread.

    `export` calls a function of yours with a query over the recorded spans, and returns its metrics.
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
        self._done: deque[list[Recorded]] = deque(maxlen=STEPS)  # one list per export
        self._new: deque[Recorded] = deque(maxlen=MOST)  # since the last export
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
        self._recording.settle()

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

    def _spans(self) -> Iterator[Recorded]:
        for step in list(self._done):
            yield from step
        yield from list(self._new)

    def _open_groups(self) -> Iterator[Recorded]:
        """Yield the groups that have not ended, marked by a negative duration."""
        for number, group in list(self._groups.items()):
            if not group.stop and group.lane is not None:
                outer = outer_of(group, VERSION)
                parent = 0 if outer is None else outer.id
                yield Recorded(number, parent, group.name, group.lane.label, group.start + self._recording.zero, -1)

    def _read(self, spans: list[Recorded]) -> None:
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
