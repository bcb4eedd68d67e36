"""The tracer of the second version: nested spans with tags, on timelines of hosts, devices and queues."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chiplog.frontends.tunix.perf.experimental import timeline as timelines_
from chiplog.frontends.tunix.perf.experimental.span import Span
from chiplog.frontends.tunix.perf.experimental.timeline import HOST, STEPS, Timeline
from chiplog.frontends.tunix.perf.experimental.timeline_utils import (
    generate_device_timeline_id,
    generate_host_timeline_id,
)
from chiplog.frontends.tunix.perf.shared_tracer import NoTracer, OpenSpan, Recording, device_names
from chiplog.frontends.tunix.perf.trace_export import ExportCall
from chiplog.metrics.step_values.reducers import MetricsT
from chiplog.store.spans.span import StoredSpan

__all__ = ["NoopTracer", "PerfTracer", "generate_device_timeline_id", "generate_host_timeline_id"]

VERSION = 2


class NoopTracer(NoTracer):
    """Records nothing."""

    timelines: Mapping[str, Timeline] = {}

    def process_and_commit_timelines(self) -> None:
        pass


class PerfTracer:
    """Records nested spans with tags; on devices, until what is passed to `async_end` is done.

    A device works on one span after another, and waiting spans are on its `_queue` timeline; spans with the names in
    `concurrent_device_spans` (or "all") may overlap. By default a span is only on the first of its devices.
    """

    def __init__(
        self,
        devices: object = None,
        export_fn: Callable[[dict[str, Timeline]], MetricsT] | None = None,
        *,
        collect_on_first_device_per_mesh: bool = True,
        concurrent_device_spans: str | Sequence[str] | None = None,
        recording: Recording | None = None,
        born: float | None = None,
    ) -> None:
        self._recording = recording or Recording()
        self._born = time.perf_counter() if born is None else born
        self._export = ExportCall("perf v2", export_fn, self._recording, lambda: self.timelines)
        self._first_only = collect_on_first_device_per_mesh
        self._step = 0
        self._timelines: dict[str, Timeline] = {}
        for device in device_names(devices):
            self._timeline(device, "device")
            self._timeline(f"{device}_queue", "queue")
        self._pending: list[StoredSpan] = []  # not yet on a timeline
        self._hosts: dict[int, tuple[int, int, str]] = {}  # of spans of hosts: id on the timeline, step, timeline
        self._inner: dict[int, deque[tuple[Span, str]]] = {}  # spans in an open one, and their timelines, by its id
        if concurrent_device_spans is not None:
            self._recording.tracer.let_overlap(VERSION, concurrent_device_spans)
        self._recording.read(VERSION, self._read)

    @property
    def all_devices(self) -> Sequence[str]:
        """The devices it was created with, and those that spans have used."""
        with self._recording.lock:
            return [one.id for one in self._timelines.values() if one.kind == "device"]

    @property
    def timelines(self) -> dict[str, Timeline]:
        """All timelines by id, with everything that has finished so far."""
        self._recording.collect()
        with self._recording.lock:
            self._absorb()
            return dict(self._timelines)

    def span(self, name: str, devices: object = None, tags: Mapping[str, Any] | None = None) -> OpenSpan:
        """Time work on this thread or task and, until what is passed to `async_end` is done, on devices."""
        if devices is not None and self._first_only:
            devices = _first(devices)
        return OpenSpan(self._recording, VERSION, name, devices, tags)

    def process_and_commit_timelines(self) -> None:
        """End the current step of all timelines."""
        self._recording.collect()
        with self._recording.lock:
            self._absorb()
            for timeline in self._timelines.values():
                timeline.commit(self._step)
            self._step += 1
            if len(self._hosts) > 2 * timelines_.MOST:
                self._hosts = dict(list(self._hosts.items())[-timelines_.MOST :])
                self._inner = dict(list(self._inner.items())[-timelines_.MOST :])

    def synchronize(self) -> None:
        """Wait until the devices have finished their work."""
        self._recording.wait_for_work()

    def print(self) -> None:
        self.synchronize()
        for timeline in self.timelines.values():
            print(timeline)

    def export(self) -> MetricsT:
        """End the step, and return what the export function makes of the timelines.

        Does not wait for devices: a late span is added to the step in which it started.
        """
        self.process_and_commit_timelines()
        return self._export()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _timeline(self, id: str, kind: str) -> Timeline:
        if id not in self._timelines:
            self._timelines[id] = Timeline(id, self._born)
            self._timelines[id].kind = kind
            for number in range(max(0, self._step - STEPS), self._step):  # in which it did nothing
                self._timelines[id].commit(number)
        return self._timelines[id]

    def _read(self, spans: list[StoredSpan]) -> None:
        self._pending += spans
        if len(self._pending) > timelines_.MOST:
            self._absorb()

    def _absorb(self) -> None:
        """Put recorded spans on their timelines, in the order in which they started."""
        spans, self._pending = self._pending, []
        hosts = sorted((one for one in spans if one.kind in ("", "task")), key=_by_start)
        starts = {one.id: one.start for one in hosts}
        for one in hosts:
            self._add_host(one)
        others = [one for one in spans if one.kind not in ("", "task")]
        for one in sorted(others, key=lambda one: (starts.get(one.parent, one.start), one.start)):
            self._add_device(one)

    def _add_host(self, one: StoredSpan) -> None:
        timeline = self._timeline(f"{HOST}{one.thread}", one.kind)
        outer = self._hosts.get(one.parent)
        span = self._span(one, timeline.next_id())
        if outer is not None and outer[2] == timeline.id:
            span.parent_id = outer[0]
        elif outer is None and one.parent:
            self._inner.setdefault(one.parent, deque(maxlen=timelines_.MOST)).append((span, timeline.id))
        for inner, where in self._inner.pop(one.id, ()):
            inner.parent_id = span.id if where == timeline.id else None
        self._hosts[one.id] = (span.id, self._step, timeline.id)
        timeline.add(one, span, None)

    def _add_device(self, one: StoredSpan) -> None:
        timeline = self._timeline(one.thread, one.kind)
        if one.kind == "device":
            self._timeline(f"{one.thread}_queue", "queue")
        host = self._hosts.get(one.parent)
        timeline.add(one, self._span(one, timeline.next_id()), None if host is None else host[1])

    def _span(self, one: StoredSpan, id: int) -> Span:
        seconds = self._recording.seconds
        return Span(one.name, seconds(one.start), id, None, dict(one.tags), seconds(one.end), one.error)


def _by_start(span: StoredSpan) -> tuple[int, int]:
    return span.start, -span.duration


def _first(devices: Any) -> object:
    """Return the first of several devices; a single device or name as it is."""
    if isinstance(devices, str):
        return devices
    if hasattr(devices, "axis_names") and hasattr(devices, "devices"):
        devices = devices.devices
    if hasattr(devices, "flat"):
        return next(iter(devices.flat), None)
    return next(iter(devices), None) if isinstance(devices, (list, tuple, set, frozenset)) else devices
