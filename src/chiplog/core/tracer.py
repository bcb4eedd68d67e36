"""The tracer: collects finished spans and gives them out in batches, as the columns of a record.

Ids, tags and columns are made where the spans are taken, on the keeper's thread. Work on a device is handed to a
`Watcher`, which says when it was done.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Protocol

import msgspec

from chiplog.core import notes, spans, values
from chiplog.core.devices import Device, labels
from chiplog.core.redact import hide
from chiplog.core.spans import WAKE, Idle, Span

MOST = 100_000  # finished spans that may wait for the keeper; more are dropped and counted
BATCH = 10_000  # spans to a record
LARGEST = 1 << 20  # bytes of tags to a record
DEADLINE = 3600.0  # s after which work on a device is given up and marked
UNFINISHED = "unfinished"  # the error of what was given up


class Work(msgspec.Struct):
    """What a device is busy with for a span; a `Watcher` gives it back with the time at which it was done."""

    span: Span
    devices: list[str]
    waits: list[Any]
    deadline: int  # monotonic nanoseconds
    flat: bool = False  # whether `waits` holds no containers any more
    done: bool = False


class Watcher(Protocol):
    """What a tracer needs of whoever waits for devices."""

    def hold(self, work: Any) -> Any:
        """Something to wait for, made on the caller's thread and without waiting."""
        ...

    def watch(self, work: Work) -> None: ...

    def settle(self, timeout: float) -> None:
        """Wait until nothing is under way; what still is then is given up."""
        ...

    def tend(self) -> None:
        """Give up what is overdue."""
        ...

    def __len__(self) -> int: ...


class Tracer:
    """Collects finished spans and gives them out in batches."""

    def __init__(self, watcher: Watcher | None = None, wake: Callable[[], object] | None = None) -> None:
        self.done: deque[Span] = deque()
        self.dropped = 0
        self.step: int | float = 0  # the newest one, also for what is logged without
        self.by_hand: dict[int, Span] = {}
        self.devices: dict[str, Device] = {}
        self.on = True
        self.every = 0  # trace only steps that are multiples of it; 0: all
        self.concurrent: frozenset[str] | None = frozenset()  # names that may overlap on a device; None: all
        self.deadline = DEADLINE
        self._watcher = watcher
        self._wake = wake
        self._ids = count(1)
        self.idle: dict[str, Idle] = {}
        self._lock = threading.RLock()
        self.readers: list[Callable[[dict[str, Any]], None]] = []  # see every batch, where it is taken
        self._taking = threading.RLock()

    def span(self, name: str, *, tags: Mapping[str, Any] | None = None, devices: Any = None) -> Span | Idle:
        if self.on or (self.every and self._is_sampled()):
            return Span(self, name, tags.copy() if type(tags) is dict else tags, devices)
        if tags is not None or devices is not None:
            return Idle(functools.partial(self.span, name, tags=tags, devices=devices))
        return self.idle.get(name) or self._new_idle(name)

    def set(
        self,
        enabled: bool,
        every: int | None = None,
        concurrent: str | Iterable[str] | None = None,
        deadline: float | None = None,
    ) -> None:
        """See `Run.trace`."""
        if every is not None and (not isinstance(every, int) or every < 1):
            raise ValueError(f"every = {every!r}: spans are kept of every n-th step, n = 1, 2, ...")
        if deadline is not None:
            self.deadline = float(deadline)
        if concurrent is not None:
            names = (concurrent,) if isinstance(concurrent, str) else tuple(concurrent)
            self.concurrent = None if "all" in names else frozenset(names)
        self.every = every if enabled and every is not None and every > 1 else 0
        self.on = enabled and not self.every

    def number(self, span: Span) -> int:
        """The id of a span: 1, 2, ... in the order in which somebody asked."""
        with self._lock:
            if not span.number:
                span.number = next(self._ids)
            return span.number

    def hold(self, work: Any) -> Any:
        try:
            return work if self._watcher is None else self._watcher.hold(work)
        except Exception as error:  # an event that a device refuses, say
            notes.once("hold", f"a device does not say when it is done: {error!r}; such spans end with the host's part")
            return None

    def launch(self, span: Span) -> None:
        """The host's part of a span with devices has ended; the devices' parts go on until their work is done."""
        try:
            work = Work(span, labels(span.devices), span.waits or [], span.stop + int(self.deadline * 1e9))
            span.waits = None  # arrays are not kept for longer than they are waited for
            if self._watcher is None or not work.waits:
                self.land(work, span.stop, span.error)
            else:
                self._watcher.watch(work)
        except Exception as error:
            notes.once("device span", f"the device part of span {span.name!r} is left out: {error!r}")

    def land(self, work: Work, end: int, error: str = "") -> None:
        """The work of a span is done, or given up: put it on its devices' timelines, once."""
        with self._lock:
            if work.done:
                return
            work.done = True
            span = work.span
            together = self.concurrent is None or span.name in self.concurrent
            for label in work.devices:
                device = self.devices.get(label)
                if device is None:
                    device = self.devices[label] = Device(label)
                begin, queued = (span.start, None) if together else device.place(span.start, end)
                if queued is not None:
                    self._add(Span(self, "queue", {"name": span.name}, None, device.queue, span, *queued, span.step))
                self._add(Span(self, span.name, span.tags, None, device.lane, span, begin, end, span.step, error))

    def end_by_hand(self) -> None:
        """End what was begun by hand and never ended, marked; for when the run ends."""
        for span in list(self.by_hand.values()):
            span.end(UNFINISHED)

    def settle(self, timeout: float) -> None:
        """Wait for the devices; what is not done by then is marked."""
        if self._watcher is not None:
            self._watcher.settle(timeout)

    def tend(self) -> None:
        if self._watcher is not None and len(self._watcher):
            self._watcher.tend()

    def is_full(self) -> bool:
        """Ask the keeper to hurry; true when a span must be dropped, which is counted."""
        if self._wake is not None and len(self.done) % 1000 == 0:
            self._wake()
        if len(self.done) < MOST:
            return False
        self.dropped += 1
        return True

    def take(self, offset: int, most: int = BATCH) -> dict[str, Any] | None:
        """The fields of a `Spans` record for what has finished, with starts on the clock that is `offset` ahead of the
        monotonic one; None when nothing has. When it returns, the readers have seen all that was taken before."""
        with self._taking:
            batch = self._take(offset, most)
            if batch is not None:
                for read in self.readers:
                    read(batch)
            return batch

    def _take(self, offset: int, most: int) -> dict[str, Any] | None:
        with self._lock:
            done: list[Span] = []
            try:
                for _ in range(min(most, len(self.done))):
                    done.append(self.done.popleft())
            except IndexError:
                pass
            if not done:
                return None
            tags = _tags_of(done)
            if len(tags) < len(done):  # too much for one record
                self.done.extendleft(reversed(done[len(tags) :]))
                del done[len(tags) :]
            for span in done:
                if not span.number:
                    self._number(span)
        names: dict[str, int] = {}
        lanes: dict[str, int] = {}
        columns = {
            "name": [names.setdefault(_text(span.name), len(names)) for span in done],
            "thread": [lanes.setdefault(span.lane.label, len(lanes)) for span in done],  # type: ignore[union-attr]
            "id": [span.number for span in done],
            "parent": [0 if span.outer is None else self._parent(span) for span in done],
            "start": [span.start + offset for span in done],
            "duration": [span.stop - span.start for span in done],
            "step": [_step(span, said) for span, said in zip(done, tags, strict=True)],
            "failed": [span.number for span in done if span.error],
            "launched": [span.number for span in done if span.devices is not None],
        }
        kinds = {span.lane.label: span.lane.kind for span in done if span.lane.kind}  # type: ignore[union-attr]
        return {
            "names": [values.name(name) for name in names],
            "threads": [values.name(label) for label in lanes],
            **columns,
            "tags": {str(span.number): said for span, said in zip(done, tags, strict=True) if said},
            "errors": {str(span.number): span.error for span in done if span.error},
            "kinds": {values.name(label): kind for label, kind in kinds.items()},
        }

    def forget(self) -> None:
        """In a forked child: what the parent has begun is the parent's."""
        self._lock, self._taking = threading.RLock(), threading.RLock()
        self.on, self.every = False, 0
        self.done.clear()
        self.by_hand.clear()
        spans.left_behind()

    def _number(self, span: Span) -> None:
        if (outer := span.outer) is not None and not outer.number and outer.tracer is self:
            outer.number = next(self._ids)
        span.number = next(self._ids)

    def _parent(self, span: Span) -> int:
        outer = span.outer
        while outer is not None and outer.tracer is not self:  # of another run
            outer = outer.outer
        return 0 if outer is None else self.number(outer)

    def _add(self, span: Span) -> None:
        if len(self.done) <= WAKE or not self.is_full():
            self.done.append(span)

    def _is_sampled(self) -> bool:
        step = self.step
        return step - step != 0 or step % self.every == 0  # one that is no number is traced

    def _new_idle(self, name: str) -> Idle:
        idle = Idle(functools.partial(self.span, name))
        if len(self.idle) < 1000:
            self.idle[name] = idle
        return idle


def _tags_of(done: list[Span]) -> list[dict[str, Any] | None]:
    """The tags of spans as JSON can say them; of as many as fit into a record, one at least."""
    found: list[dict[str, Any] | None] = []
    size = 0
    for span in done:
        said = None
        if span.tags is not None:
            plain = hide(values.plain(span.tags))
            said = plain if isinstance(plain, dict) else {"tag": plain}
            taken = len(msgspec.json.encode(said))
            if taken > LARGEST:
                said, taken = {"left out": f"{taken:,} bytes of tags"}, 0
            size += taken
            if size > LARGEST and found:
                break
        found.append(said)
    return found


def _step(span: Span, tags: dict[str, Any] | None) -> Any:
    """The step of a span: its tag of that name, or that of the run when it ended; None for one that is not finite."""
    step = tags["step"] if tags and type(tags.get("step")) in (int, float) else span.step
    return step if type(step) is int or step is None or step - step == 0 else None


def _text(name: Any) -> str:
    return name if type(name) is str else values.name(name)
