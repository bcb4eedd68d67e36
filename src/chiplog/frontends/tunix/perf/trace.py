"""The first version's tracer: spans in groups, on threads and devices."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

from chiplog.core import messages
from chiplog.frontends.tunix.perf import metrics, trace_files
from chiplog.frontends.tunix.perf.recorder import NOTHING, Arrivals, Nothing, Opened, Recording, checked, outer_of
from chiplog.frontends.tunix.perf.span_tree import THREAD, Forest
from chiplog.metrics.step_values.reducers import MetricsT
from chiplog.store.spans.span import Span as Recorded

VERSION = 1
MOST = 50_000  # spans that can be asked for; older ones are in the journal
STEPS = 8  # exports whose spans can be asked for


class NoopTracer:
    """Records nothing."""

    all_devices: Sequence[str] = ()

    def span(self, name: str, devices: Any = None) -> Nothing:  # noqa: ARG002
        return NOTHING

    def span_group(self, name: str) -> Nothing:  # noqa: ARG002
        return NOTHING

    def synchronize(self) -> None:
        pass

    def print(self) -> None:
        pass

    def export(self) -> MetricsT:
        return {}


class PerfTracer:
    """Spans and groups of spans; whoever makes it is on the main thread.

    `export` hands a query of what was recorded to a function of yours, and gives what that returns.
    """

    def __init__(
        self,
        devices: Any = None,
        export_fn: Callable[[metrics.PerfSpanQuery], MetricsT] | None = None,
        *,
        recording: Recording | None = None,
        born: float | None = None,
    ) -> None:
        self._recording = recording or Recording()
        self._born = time.perf_counter() if born is None else born
        self._main = THREAD + threading.current_thread().name
        self._first = True  # no group has been opened yet
        self._devices = checked(devices)
        self._export_fn = export_fn
        self._groups: dict[int, Any] = {}  # the open ones and those that can be asked for, by id
        self._done: deque[list[Recorded]] = deque(maxlen=STEPS)  # by export
        self._new: deque[Recorded] = deque(maxlen=MOST)  # since the last one
        self._arrivals = Arrivals(MOST)
        self._recording.read(VERSION, self._read)

    @property
    def all_devices(self) -> Sequence[str]:
        """The devices it was made for, and those that were met since."""
        seen = dict.fromkeys(self._devices)
        seen |= dict.fromkeys(span.thread for span in self._spans() if span.kind == "device")
        return list(seen)

    def span(self, name: str, devices: Any = None) -> Opened:
        """A stretch of work on this thread and, until what its `device_end` is given is done, on devices."""
        return Opened(self._recording, VERSION, name, devices, None)

    def span_group(self, name: str) -> _Group:
        """A stretch that others lie in, on all timelines."""
        return _Group(self, self._recording, name)

    def synchronize(self) -> None:
        """Wait until the devices have done what they were given."""
        self._recording.settle()

    def print(self) -> None:
        """Show every timeline as a tree."""
        self.synchronize()
        query = self._query()
        for timeline in query.get_timeline_ids():
            (root,) = query().timeline(timeline).get()
            print(f"\n[{timeline}]\n{root.picture(self._born)}", end="")

    def export(self) -> MetricsT:
        """What the export function makes of it; a device that is still at work is not waited for."""
        if self._export_fn is None:
            return {}
        busy = self._recording.busy
        self._recording.collect()
        try:
            found = self._export_fn(self._query())
        except Exception as error:
            messages.once(f"tunix export {error}", f"the perf export function fails: {error!r}; training goes on")
            found = {}
        with self._recording.lock:
            self._done.append(list(self._new))
            self._new.clear()
            self._forget_groups({span.id for step in self._done for span in step})
        trace_files.await_devices(self._write_late, self._recording, busy)
        return found or {}

    def _write_late(self) -> None:
        trace_files.write(self._export_fn, self._query())

    def _query(self) -> metrics.PerfSpanQuery:
        self._recording.collect()
        known = set(self._groups)
        with self._recording.lock:
            spans = [*self._spans(), *self._open_groups()]
        forest = Forest(spans, known, self._main, self._born, self._recording.seconds)
        return metrics.PerfSpanQuery(forest.tree, forest.timelines(), self._main, self._devices, self._arrivals)

    def _spans(self) -> Iterator[Recorded]:
        for step in list(self._done):
            yield from step
        yield from list(self._new)

    def _open_groups(self) -> Iterator[Recorded]:
        """Groups that have not ended, as if they were to last for ever."""
        for ident, group in list(self._groups.items()):
            if not group.stop:
                outer = outer_of(group, VERSION)
                parent = 0 if outer is None else outer.id
                yield Recorded(ident, parent, group.name, group.lane.label, group.start + self._recording.zero, -1)

    def _read(self, spans: list[Recorded]) -> None:
        self._new.extend(spans)
        self._arrivals.add(spans)

    def _begin_group(self, group: Any) -> None:
        if self._first:
            self._first, self._main = False, THREAD + group.lane.label  # a task of the main thread, say
        self._groups[group.id] = group
        if len(self._groups) > MOST:
            self._forget_groups(())

    def _forget_groups(self, kept: Container[int]) -> None:
        self._groups = {ident: group for ident, group in self._groups.items() if ident in kept or not group.stop}


def query(tracer: PerfTracer) -> metrics.PerfSpanQuery:
    """What a tracer has recorded, to be asked about; no method, since tracers have no more than the documented ones."""
    return tracer._query()


class _Group(Opened):
    __slots__ = ("_tracer",)

    def __init__(self, tracer: PerfTracer, recording: Recording, name: str) -> None:
        super().__init__(recording, VERSION, name, None, None)
        self._tracer = tracer

    def __enter__(self) -> _Group:
        super().__enter__()
        if getattr(self.span, "lane", None) is not None:
            self._tracer._begin_group(self.span)
        return self
