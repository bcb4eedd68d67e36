"""One tracer for both versions: each is a view of what it records.

A cluster records with its run's tracer, so its spans are in the journal too; without a run it has one of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from itertools import islice
from time import monotonic_ns
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import astuple

from chiplog.core import forks, notes, records
from chiplog.core.clock import Clock
from chiplog.core.devices import labels
from chiplog.core.errors import BadSetting
from chiplog.core.run import Run
from chiplog.core.spans import here
from chiplog.core.tracer import Tracer, Watcher
from chiplog.runtime.watch import Watch
from chiplog.store.spans import Span, expand

SETTLE = 30.0  # s that `synchronize` waits for devices
WAITING = 50_000  # spans that wait until somebody looks

Reader = Callable[[list[Span]], None]

_innermost: ContextVar[Opened | None] = ContextVar("chiplog_tunix_span", default=None)


class Launching(Span, frozen=True):
    """A host's span that gave work to devices, whose parts may come much later."""


class Recording:
    """Spans as they are recorded, for those who read them in batches; `zero` is the wall-clock time at which the
    monotonic clock was 0."""

    def __init__(self, run: Run | None = None, watcher: Watcher | None = None, zero: int | None = None) -> None:
        self.run = None if run is None or run.inert else run
        if self.run is None:  # without a run's keeper, who traces also takes, before there is too much of it
            self.tracer = Tracer(Watch() if watcher is None else watcher, self.collect)
        else:
            self.tracer = self.run.tracer
        if zero is None:
            zero = Clock().offset if self.run is None else self.run.now() - monotonic_ns()
        self.zero = zero
        self.lock = threading.RLock()  # of the views
        self._batches: deque[dict[str, Any]] = deque()  # taken, and not yet given to the views
        self._waiting = 0  # about how many spans they hold
        self._readers: list[Reader] = []
        self.tracer.readers.append(self._read)
        forks.watch(self)

    def read(self, reader: Reader) -> None:
        """Have a function called with all spans from now on, whenever somebody looks at them, and under the lock."""
        self._readers.append(reader)

    def collect(self) -> None:
        """Have the readers see every span that has finished by now, on devices too."""
        self.tracer.look()
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

    def _read(self, batch: dict[str, Any]) -> None:
        """Take a batch along. Never waits: it may be a signal handler that has the spans written, over any lock."""
        self._batches.append(batch)
        self._waiting += len(batch["id"])
        if self._waiting > WAITING and self.lock.acquire(blocking=False):
            try:
                self._give()
            finally:
                self.lock.release()

    def _give(self) -> None:
        self._waiting = 0
        while self._batches:
            batch = records.Spans(0, 0, **self._batches.popleft())
            launched = set(batch.launched)
            found = [Launching(*astuple(one)) if one.id in launched else one for one in expand(batch, 0, 0)]
            for reader in self._readers:
                try:
                    reader(found)
                except Exception as error:
                    notes.once("tunix spans", f"spans could not be shown: {error!r}; the journal has them")


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
            notes.once(
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

    Where a program opens the same span in both versions at once, it is one: the inner one adds its tags to it.
    """

    __slots__ = (
        "_around",
        "_devices",
        "_joined",
        "_name",
        "_recording",
        "_tags",
        "_version",
        "_where",
        "span",
        "waitlist",
    )

    def __init__(
        self, recording: Recording, version: int, name: str, devices: Any, tags: Mapping[str, Any] | None
    ) -> None:
        self._recording, self._version, self._name, self._devices, self._tags = recording, version, name, devices, tags
        self._joined = False
        self.span: Any = None
        self.waitlist: list[Any] = []

    def __enter__(self) -> Opened:
        around = self._around = _innermost.get()
        self._where = here()
        if around is not None and around._is(self):
            around._joined, self.span = True, around.span
            if self._tags:
                self.span.tag(**{str(key): value for key, value in self._tags.items()})
        else:
            self.span = self._recording.tracer.span(self._name, tags=self._tags, devices=self._devices)
            self.span.__enter__()
        _innermost.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        if _innermost.get() is self:
            _innermost.set(self._around)
        if self._around is None or self._around.span is not self.span:
            self.span.__exit__(kind, e, t)

    def async_end(self, work: Any) -> None:
        """Let the part on the devices last until this is done."""
        self.waitlist.append(work)
        self.span.async_end(work)

    device_end = async_end

    def _is(self, other: Opened) -> bool:
        """Whether another is the same span, opened by the other version in the same place."""
        return (
            self._version != other._version
            and self._name == other._name
            and not self._joined
            and self._recording is other._recording
            and self._where == other._where
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
