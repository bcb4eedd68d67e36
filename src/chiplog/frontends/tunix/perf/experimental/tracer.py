"""The second version's tracer: nested spans with tags, on timelines of hosts, devices and the devices' queues."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chiplog.core import messages
from chiplog.frontends.tunix.perf import trace_files
from chiplog.frontends.tunix.perf.experimental import timeline as timelines_
from chiplog.frontends.tunix.perf.experimental.span import Span
from chiplog.frontends.tunix.perf.experimental.timeline import HOST, STEPS, Timeline
from chiplog.frontends.tunix.perf.experimental.timeline_utils import (
    generate_device_timeline_id,
    generate_host_timeline_id,
)
from chiplog.frontends.tunix.perf.recorder import NOTHING, Nothing, Opened, Recording, checked
from chiplog.metrics.step_values.reducers import MetricsT
from chiplog.store.spans.span import Span as Recorded

__all__ = ["NoopTracer", "PerfTracer", "generate_device_timeline_id", "generate_host_timeline_id"]

VERSION = 2


class NoopTracer:
    """Records nothing."""

    all_devices: Sequence[str] = ()
    timelines: Mapping[str, Timeline] = {}

    def span(self, name: str, devices: Any = None, tags: Mapping[str, Any] | None = None) -> Nothing:  # noqa: ARG002
        return NOTHING

    def process_and_commit_timelines(self) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def print(self) -> None:
        pass

    def export(self) -> MetricsT:
        return {}


class PerfTracer:
    """Spans that nest, with tags; on devices until what their `async_end` is given is done.

    A device does one thing after another, and what had to wait is on its `_queue`; spans of the names in
    `concurrent_device_spans` (or "all") may overlap. By default a span is shown on the first of its devices.
    """

    def __init__(
        self,
        devices: Any = None,
        export_fn: Callable[[dict[str, Timeline]], MetricsT] | None = None,
        *,
        collect_on_first_device_per_mesh: bool = True,
        concurrent_device_spans: str | Sequence[str] | None = None,
        recording: Recording | None = None,
        born: float | None = None,
    ) -> None:
        self._recording = recording or Recording()
        self._born = time.perf_counter() if born is None else born
        self._export_fn = export_fn
        self._first_only = collect_on_first_device_per_mesh
        self._devices = checked(devices)
        self._step = 0
        self._timelines: dict[str, Timeline] = {}
        for device in self._devices:
            self._timeline(device, "device")
            self._timeline(f"{device}_queue", "queue")
        self._pending: list[Recorded] = []  # recorded, and not yet on a timeline
        self._hosts: dict[int, tuple[int, int, str]] = {}  # of host spans: id on the timeline, step, timeline
        self._inner: dict[int, deque[tuple[Span, str]]] = {}  # spans, with their timelines, whose parent is still open
        if concurrent_device_spans is not None:
            self._recording.tracer.let_overlap(VERSION, concurrent_device_spans)
        self._recording.read(VERSION, self._read)

    @property
    def all_devices(self) -> Sequence[str]:
        """The devices it was made for, and those that were met since."""
        with self._recording.lock:
            return [one.id for one in self._timelines.values() if one.kind == "device"]

    @property
    def timelines(self) -> dict[str, Timeline]:
        """All of them by id, with what has finished by now."""
        self._recording.collect()
        with self._recording.lock:
            self._absorb()
            return dict(self._timelines)

    def span(self, name: str, devices: Any = None, tags: Mapping[str, Any] | None = None) -> Opened:
        """A stretch of work on this thread or task and, until what its `async_end` is given is done, on devices."""
        if devices is not None and self._first_only:
            devices = _first(devices)
        return Opened(self._recording, VERSION, name, devices, tags)

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
        """Wait until the devices have done what they were given."""
        self._recording.settle()

    def print(self) -> None:
        self.synchronize()
        for timeline in self.timelines.values():
            print(timeline)

    def export(self) -> MetricsT:
        """End the step, and give what the export function makes of the timelines.

        A device that is still at work is not waited for; its span comes into the step it was begun in.
        """
        busy = self._recording.busy
        self.process_and_commit_timelines()
        if self._export_fn is None:
            return {}
        trace_files.await_devices(self._write_late, self._recording, busy)
        try:
            return self._export_fn(self.timelines) or {}
        except Exception as error:
            messages.once(f"tunix export v2 {error}", f"the perf v2 export function fails: {error!r}; training goes on")
            return {}

    def _write_late(self) -> None:
        trace_files.write(self._export_fn, self.timelines)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _timeline(self, id: str, kind: str) -> Timeline:
        if id not in self._timelines:
            self._timelines[id] = Timeline(id, self._born)
            self._timelines[id].kind = kind
            for number in range(max(0, self._step - STEPS), self._step):  # it was not there, and did nothing
                self._timelines[id].commit(number)
        return self._timelines[id]

    def _read(self, spans: list[Recorded]) -> None:
        self._pending += spans
        if len(self._pending) > timelines_.MOST:
            self._absorb()

    def _absorb(self) -> None:
        """Put what was recorded on its timelines, in the order in which it was begun."""
        spans, self._pending = self._pending, []
        hosts = sorted((one for one in spans if one.kind in ("", "task")), key=_begin)
        starts = {one.id: one.start for one in hosts}
        for one in hosts:
            self._add_host(one)
        others = [one for one in spans if one.kind not in ("", "task")]
        for one in sorted(others, key=lambda one: (starts.get(one.parent, one.start), one.start)):
            self._add_device(one)

    def _add_host(self, one: Recorded) -> None:
        timeline = self._timeline(f"{HOST}{one.thread}", one.kind)
        outer = self._hosts.get(one.parent)
        span = self._seen(one, timeline.next_id())
        if outer is not None and outer[2] == timeline.id:
            span.parent_id = outer[0]
        elif outer is None and one.parent:
            self._inner.setdefault(one.parent, deque(maxlen=timelines_.MOST)).append((span, timeline.id))
        for inner, where in self._inner.pop(one.id, ()):
            inner.parent_id = span.id if where == timeline.id else None
        self._hosts[one.id] = (span.id, self._step, timeline.id)
        timeline.add(one, span, None)

    def _add_device(self, one: Recorded) -> None:
        timeline = self._timeline(one.thread, one.kind)
        if one.kind == "device":
            self._timeline(f"{one.thread}_queue", "queue")
        host = self._hosts.get(one.parent)
        timeline.add(one, self._seen(one, timeline.next_id()), None if host is None else host[1])

    def _seen(self, one: Recorded, ident: int) -> Span:
        seconds = self._recording.seconds
        return Span(one.name, seconds(one.start), ident, None, dict(one.tags), seconds(one.end), one.error)


def _begin(span: Recorded) -> tuple[int, int]:
    return span.start, -span.duration


def _first(devices: Any) -> Any:
    """The first of several devices; a name or a device as it is."""
    if isinstance(devices, str):
        return devices
    if hasattr(devices, "axis_names") and hasattr(devices, "devices"):
        devices = devices.devices
    if hasattr(devices, "flat"):
        return next(iter(devices.flat), None)
    return next(iter(devices), None) if isinstance(devices, (list, tuple, set, frozenset)) else devices
