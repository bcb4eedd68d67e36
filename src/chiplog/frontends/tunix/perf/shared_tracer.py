"""One tracer for both versions, which are two views of what it records.

A cluster uses the tracer of its run, so that its spans are in the journal too; without a run it has one of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from time import monotonic_ns
from types import TracebackType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from msgspec.structs import astuple, replace

from chiplog.core import messages, records
from chiplog.core.background import forks
from chiplog.core.clock import RunClock
from chiplog.core.errors import BadSetting
from chiplog.core.run import Run
from chiplog.core.tracing.idle_span import Idle
from chiplog.core.tracing.span import DOUBLE, WHOLE
from chiplog.core.tracing.span import Span as Opening
from chiplog.core.tracing.timelines import labels
from chiplog.core.tracing.tracer import Tracer, Watcher
from chiplog.metrics.step_values.reducers import MetricsT
from chiplog.runtime.devices.watcher import DeviceWatcher
from chiplog.store.spans.span import StoredSpan, expand

SETTLE = 30.0  # s that `synchronize` waits for devices
WAITING = 50_000  # spans that may wait until a view reads them

SIMULTANEOUS = 1_000_000  # ns between the starts of a span that both versions have opened
NEW_NAMES = {"refer_inference": "reference_inference", "peft_train_step": "peft_train"}  # by the first version's names

Reader = Callable[[list[StoredSpan]], None]


class Launching(StoredSpan, frozen=True):
    """A span of a host that gave work to devices, whose parts may arrive much later."""


class Recording:
    """Recorded spans, read by the views in batches; `zero` is the wall-clock time when the monotonic clock was 0."""

    def __init__(self, run: Run | None = None, watcher: Watcher | None = None, zero: int | None = None) -> None:
        self.run = None if run is None or run.inert else run
        self._watcher: Watcher | None = None
        if self.run is None:  # there is no background thread, so the tracing thread collects when many spans wait
            self._watcher = DeviceWatcher() if watcher is None else watcher
            self.tracer = Tracer(self._watcher, self.collect)
        else:
            self.tracer = self.run.tracer
        if zero is None:
            zero = RunClock().offset if self.run is None else self.run.now() - monotonic_ns()
        self.zero = zero
        self.lock = threading.RLock()  # held while views read
        self._batches: deque[tuple[dict[str, Any], list[Opening]]] = deque()  # not yet read by the views
        self._waiting = 0  # about how many spans these hold
        self._readers: list[tuple[int, Reader]] = []
        self.tracer.readers.append(self._read)
        forks.watch(self)

    def read(self, view: int, reader: Reader) -> None:
        """Call a function with the spans of a view from now on, in `collect`, under the lock."""
        self._readers.append((view, reader))

    @property
    def busy(self) -> bool:
        """Whether devices are at work and no run will wait for them."""
        return self._watcher is not None and len(self._watcher) > 0

    def collect(self) -> None:
        """Pass every span that has finished so far, on devices too, to the readers."""
        self.tracer.poll()
        if self.run is not None:
            self.run.write_spans()
        else:
            while self.tracer.next_batch(self.zero) is not None:
                pass
        with self.lock:
            self._pass_on()

    def wait_for_work(self, timeout: float = SETTLE) -> None:
        """Wait for the devices, then collect; mark what a device has not finished within the timeout."""
        self.tracer.wait_for_work(timeout)
        self.collect()

    def seconds(self, wall: int) -> float:
        """Convert a span's time to the clock of `time.perf_counter`."""
        return (wall - self.zero) / 1e9

    def work(self, name: str, device: str, begin: float, waitlist: object) -> Opening:
        """Return work for `tracer.launch`: on a device, since a time of `time.perf_counter`, until it is done."""
        work = Opening(self.tracer, name, None, device, start=round(begin * 1e9), stop=monotonic_ns())
        if waitlist is not None:
            work.waits = [self.tracer.hold(waitlist)]
        return work

    def forked(self) -> None:
        """In a forked child, replace the lock, which would never be released."""
        self.lock = threading.RLock()

    def _read(self, batch: dict[str, Any], spans: list[Opening]) -> None:
        """Keep a batch for the views. Never waits: a signal handler may call this while the lock is held."""
        self._batches.append((batch, spans))
        self._waiting += len(batch["id"])
        if self._waiting > WAITING and self.lock.acquire(blocking=False):
            try:
                self._pass_on()
            finally:
                self.lock.release()

    def _pass_on(self) -> None:
        self._waiting = 0
        while self._batches:
            columns, spans = self._batches.popleft()
            batch = records.SpansRecord(0, 0, **columns)
            launched = set(batch.launched)
            finished = [Launching(*astuple(one)) if one.id in launched else one for one in expand(batch, 0, 0)]
            for view, reader in self._readers:
                try:
                    reader(self._visible(view, finished, spans))
                except Exception as error:
                    messages.once("tunix spans", f"spans cannot be shown: {error!r}; the journal has them")

    def _visible(self, view: int, finished: Sequence[StoredSpan], spans: Sequence[Opening]) -> list[StoredSpan]:
        """Return the spans of a view, each with the nearest visible one as its parent."""
        visible = []
        for one, span in zip(finished, spans, strict=True):
            if span.view == view or not span.view:
                outer = None if span.outer is None else outer_of(span, view)
                parent = 0 if outer is None else outer.number or self.tracer.number(outer)
                visible.append(one if parent == one.parent else replace(one, parent=parent))
        return visible


class Arrivals:
    """Spans in the order in which they arrived, for readers that ask what is new; the oldest are dropped."""

    def __init__(self, most: int = 50_000) -> None:
        self._kept: deque[StoredSpan] = deque(maxlen=most)
        self._count = 0  # of all that ever arrived

    def add(self, spans: Sequence[StoredSpan]) -> None:
        self._kept.extend(spans)
        self._count += len(spans)

    def since(self, count: int) -> tuple[list[StoredSpan], int]:
        """Return the spans after the first `count`, and how many have arrived in all."""
        new, kept = self._count - count, len(self._kept)
        if new > kept:
            messages.once(
                f"tunix arrivals {id(self)}",
                f"more than {kept:,} spans between two exports; only the journal has the first ones",
            )
        return list(islice(reversed(self._kept), new))[::-1], self._count


class Arriving(Protocol):
    """A query of the first version, or a timeline of the second."""

    arrivals: Arrivals


Recorded = Arriving | Mapping[str, Any]  # what an export function is called with: a query, or timelines by id


class Reading:
    """The position of one reader in the arrivals of any tracers."""

    def __init__(self) -> None:
        self._counts: WeakKeyDictionary[Arrivals, int] = WeakKeyDictionary()

    def new(self, recorded: Recorded) -> list[StoredSpan]:
        """Return the spans that have arrived since the last call."""
        new: list[StoredSpan] = []
        for one in recorded.values() if isinstance(recorded, Mapping) else (recorded,):
            spans, self._counts[one.arrivals] = one.arrivals.since(self._counts.get(one.arrivals, 0))
            new += spans
        return new


class OpenSpan:
    """An open span of either version; `device_end` and `async_end` set what it waits for on devices.

    Each version sees its own spans. If a program opens the same span in both at once, the journal has one, with the
    tags of both.
    """

    __slots__ = ("_devices", "_name", "_recording", "_tags", "_version", "span", "waitlist")

    def __init__(
        self, recording: Recording, version: int, name: str, devices: object, tags: Mapping[str, Any] | None
    ) -> None:
        self._recording, self._version, self._name, self._devices, self._tags = recording, version, name, devices, tags
        self.span: Opening | Idle
        self.waitlist: list[object] = []

    def __enter__(self) -> OpenSpan:
        span = self.span = self._recording.tracer.span(self._name, tags=self._tags, devices=self._devices)
        span.__enter__()
        if type(span) is Opening:
            span.view = self._version
            outer = span.outer
            if outer is not None and outer.view and outer.view != span.view and _is_same(outer, span):
                outer.pair, span.pair = WHOLE, DOUBLE
                if self._tags:
                    outer.tag(**{str(key): value for key, value in self._tags.items()})
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        self.span.__exit__(kind, e, t)

    def async_end(self, work: object) -> None:
        """Let the part on the devices last until this work is done."""
        self.waitlist.append(work)
        self.span.async_end(work)

    device_end = async_end


def outer_of(span: Opening, view: int) -> Opening | None:
    """Return the nearest span around this one that a view sees."""
    outer = span.outer
    while outer is not None and (outer.tracer is not span.tracer or outer.view not in (0, view)):
        outer = outer.outer
    return outer


def _is_same(outer: Opening, inner: Opening) -> bool:
    """Whether both versions have opened one span: at once, on one timeline, under the name that each has for it."""
    return (
        not outer.pair
        and outer.tracer is inner.tracer
        and NEW_NAMES.get(outer.name, outer.name) == NEW_NAMES.get(inner.name, inner.name)
        and inner.start - outer.start < SIMULTANEOUS
        and (outer.lane is inner.lane or outer.lane.label == inner.lane.label)  # type: ignore[union-attr]
    )


class NoSpan:
    """The span of a tracer that records nothing; one object serves for all."""

    __slots__ = ()
    waitlist: list[object] = []  # noqa: RUF012

    def __enter__(self) -> NoSpan:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def async_end(self, work: object) -> None:
        pass

    device_end = async_end


NO_SPAN = NoSpan()


class NoTracer:
    """What both versions have of a tracer that records nothing."""

    all_devices: Sequence[str] = ()

    def span(self, name: str, devices: object = None, tags: object = None) -> NoSpan:  # noqa: ARG002
        return NO_SPAN

    def synchronize(self) -> None:
        pass

    def print(self) -> None:
        pass

    def export(self) -> MetricsT:
        return {}


def device_names(devices: Any) -> list[str]:
    """Return the names of devices: one, several, an array or all of a mesh; fail for anything else."""
    if hasattr(devices, "axis_names") and hasattr(devices, "devices"):
        devices = devices.devices
    each = devices.flat if hasattr(devices, "flat") else devices if isinstance(devices, Iterable) else (devices,)
    for one in () if devices is None or isinstance(devices, str) else each:
        if not isinstance(one, str) and not any(hasattr(one, mark) for mark in ("platform", "index")):
            raise BadSetting(f"{one!r:.100} is not a device: pass a name such as 'tpu0', or a device of jax or torch")
    return labels(devices)
