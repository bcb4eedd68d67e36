"""One tracer for both versions: each is a view of what it records.

A cluster records with its run's tracer, so its spans are in the journal too; without a run it has one of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from time import monotonic_ns
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import astuple, replace

from chiplog.core import messages, records
from chiplog.core.background import forks
from chiplog.core.clock import RunClock
from chiplog.core.errors import BadSetting
from chiplog.core.run import Run
from chiplog.core.tracing.span import DOUBLE, WHOLE
from chiplog.core.tracing.span import Span as Opening
from chiplog.core.tracing.timelines import labels
from chiplog.core.tracing.tracer import Tracer, Watcher
from chiplog.runtime.devices.watcher import DeviceWatcher
from chiplog.store.spans.span import Span, expand

SETTLE = 30.0  # s that `synchronize` waits for devices
WAITING = 50_000  # spans that wait until somebody looks

AT_ONCE = 1_000_000  # ns between the begins of a span that both versions have opened
SAME = {"refer_inference": "reference_inference", "peft_train_step": "peft_train"}  # the first version's names

Reader = Callable[[list[Span]], None]


class Launching(Span, frozen=True):
    """A host's span that gave work to devices, whose parts may come much later."""


class Recording:
    """Spans as they are recorded, for those who read them in batches; `zero` is the wall-clock time at which the
    monotonic clock was 0."""

    def __init__(self, run: Run | None = None, watcher: Watcher | None = None, zero: int | None = None) -> None:
        self.run = None if run is None or run.inert else run
        self._watcher: Watcher | None = None
        if self.run is None:  # without a run's keeper, who traces also takes, before there is too much of it
            self._watcher = DeviceWatcher() if watcher is None else watcher
            self.tracer = Tracer(self._watcher, self.collect)
        else:
            self.tracer = self.run.tracer
        if zero is None:
            zero = RunClock().offset if self.run is None else self.run.now() - monotonic_ns()
        self.zero = zero
        self.lock = threading.RLock()  # of the views
        self._batches: deque[tuple[dict[str, Any], list[Opening]]] = deque()  # taken, and not yet given to the views
        self._waiting = 0  # about how many spans they hold
        self._readers: list[tuple[int, Reader]] = []
        self.tracer.readers.append(self._read)
        forks.watch(self)

    def read(self, view: int, reader: Reader) -> None:
        """Have a function called with a view's spans from now on, whenever somebody looks at them, under the lock."""
        self._readers.append((view, reader))

    @property
    def busy(self) -> bool:
        """Whether devices are at work, and no run will wait for them."""
        return self._watcher is not None and len(self._watcher) > 0

    def collect(self) -> None:
        """Have the readers see every span that has finished by now, on devices too."""
        self.tracer.poll()
        if self.run is not None:
            self.run.keep_spans()
        else:
            while self.tracer.take(self.zero) is not None:
                pass
        with self.lock:
            self._give()

    def settle(self, timeout: float = SETTLE) -> None:
        """Wait for the devices, and have the readers see everything; what a device has not done then is marked."""
        self.tracer.settle(timeout)
        self.collect()

    def seconds(self, wall: int) -> float:
        """A span's time on the clock of `time.perf_counter`."""
        return (wall - self.zero) / 1e9

    def forked(self) -> None:
        """In a forked child: nobody holds the lock here."""
        self.lock = threading.RLock()

    def _read(self, batch: dict[str, Any], spans: list[Opening]) -> None:
        """Take a batch along. Never waits: it may be a signal handler that has the spans written, over any lock."""
        self._batches.append((batch, spans))
        self._waiting += len(batch["id"])
        if self._waiting > WAITING and self.lock.acquire(blocking=False):
            try:
                self._give()
            finally:
                self.lock.release()

    def _give(self) -> None:
        self._waiting = 0
        while self._batches:
            columns, spans = self._batches.popleft()
            batch = records.Spans(0, 0, **columns)
            launched = set(batch.launched)
            found = [Launching(*astuple(one)) if one.id in launched else one for one in expand(batch, 0, 0)]
            for view, reader in self._readers:
                try:
                    reader(self._seen_by(view, found, spans))
                except Exception as error:
                    messages.once("tunix spans", f"spans could not be shown: {error!r}; the journal has them")

    def _seen_by(self, view: int, found: Sequence[Span], spans: Sequence[Opening]) -> list[Span]:
        """The spans of a view, each inside the nearest one that it sees too."""
        seen = []
        for one, span in zip(found, spans, strict=True):
            if span.view == view or not span.view:
                outer = span.outer
                if outer is None:
                    seen.append(one)
                    continue
                outer = outer_of(span, view)
                parent = 0 if outer is None else outer.number or self.tracer.number(outer)
                seen.append(one if parent == one.parent else replace(one, parent=parent))
        return seen


class Arrivals:
    """Spans in the order in which they came, for those who come back for what is new; the oldest are let go."""

    def __init__(self, most: int = 50_000) -> None:
        self._kept: deque[Span] = deque(maxlen=most)
        self._count = 0  # of all that ever came

    def add(self, spans: Sequence[Span]) -> None:
        self._kept.extend(spans)
        self._count += len(spans)

    def since(self, seen: int) -> tuple[list[Span], int]:
        """What has come after the first `seen`, and how many have come in all."""
        new, kept = self._count - seen, len(self._kept)
        if new > kept:
            messages.once(
                f"tunix arrivals {id(self)}",
                f"more than {kept:,} spans between two exports; the first ones are in the journal alone",
            )
        return list(islice(reversed(self._kept), new))[::-1], self._count


class Reading:
    """How far one reader has come, in the arrivals of any tracers."""

    def __init__(self) -> None:
        self._seen: WeakKeyDictionary[Arrivals, int] = WeakKeyDictionary()

    def new(self, arrivals: Arrivals) -> list[Span]:
        """What has come since the last time it asked."""
        found, self._seen[arrivals] = arrivals.since(self._seen.get(arrivals, 0))
        return found


class Opened:
    """A span that is open, as either version gives it out: `device_end` and `async_end` say what it waits for.

    Each version sees its own. Where a program opens the same span in both at once, the journal has one, with the tags
    of both.
    """

    __slots__ = ("_devices", "_name", "_recording", "_tags", "_version", "span", "waitlist")

    def __init__(
        self, recording: Recording, version: int, name: str, devices: Any, tags: Mapping[str, Any] | None
    ) -> None:
        self._recording, self._version, self._name, self._devices, self._tags = recording, version, name, devices, tags
        self.span: Any = None
        self.waitlist: list[Any] = []

    def __enter__(self) -> Opened:
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

    def async_end(self, work: Any) -> None:
        """Let the part on the devices last until this is done."""
        self.waitlist.append(work)
        self.span.async_end(work)

    device_end = async_end


def outer_of(span: Any, view: int) -> Any:
    """The nearest span around that a view sees."""
    outer = span.outer
    while outer is not None and (outer.tracer is not span.tracer or outer.view not in (0, view)):
        outer = outer.outer
    return outer


def _is_same(outer: Any, inner: Any) -> bool:
    """Whether both versions have opened one span: at once, in the same place, by the name that each has for it."""
    return (
        not outer.pair
        and outer.tracer is inner.tracer
        and SAME.get(outer.name, outer.name) == SAME.get(inner.name, inner.name)
        and inner.start - outer.start < AT_ONCE
        and (outer.lane is inner.lane or outer.lane.label == inner.lane.label)
    )


class Nothing:
    """What a tracer that records nothing gives out: one object for all spans."""

    __slots__ = ()
    waitlist: list[Any] = []  # noqa: RUF012

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def async_end(self, work: Any) -> None:
        pass

    device_end = async_end


NOTHING = Nothing()


def checked(devices: Any) -> list[str]:
    """The names of devices of any kind: one, several, an array or a mesh; fails for what is none."""
    if hasattr(devices, "axis_names") and hasattr(devices, "devices"):
        devices = devices.devices  # all of a mesh
    each = devices.flat if hasattr(devices, "flat") else devices if isinstance(devices, Iterable) else (devices,)
    for one in () if devices is None or isinstance(devices, str) else each:
        if not isinstance(one, str) and not any(hasattr(one, mark) for mark in ("platform", "index")):
            raise BadSetting(f"{one!r:.100} is no device: give a name such as 'tpu0', or a device of jax or torch")
    return labels(devices)
