"""The tracer: collects finished spans and returns them in batches, as the columns of a record.

Ids, tags and columns are made when spans are taken, on the background thread. Work on a device is passed to a
`Watcher`, which reports when it was done.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Protocol

import msgspec

from chiplog.core import messages
from chiplog.core.records import Number, Plain
from chiplog.core.tracing import span as spans
from chiplog.core.tracing.idle_span import Idle, Idles
from chiplog.core.tracing.span import DOUBLE, WAKE, Lane, Span
from chiplog.core.tracing.timelines import Device, labels
from chiplog.core.values import convert
from chiplog.core.values.redact import hide

MOST = 100_000  # finished spans that may wait for the background thread; more are dropped and counted
BATCH = 10_000  # spans per record
LARGEST = 1 << 20  # bytes of tags per record
DEADLINE = 3600.0  # s after which work on a device is abandoned and marked
UNFINISHED = "unfinished"  # the error of abandoned work
_COLUMNS = ("name", "thread", "id", "parent", "start", "duration", "step")
_IDS = ("failed", "launched")  # lists of span ids
_BY_ID = ("tags", "errors")  # dicts by span id

SpanFields = dict[str, Plain]  # the fields of a `Spans` record


class Work(msgspec.Struct):
    """The work of a span on its devices; a `Watcher` passes it to `land` with the time at which it was done."""

    tracer: Tracer
    span: Span
    devices: list[str]
    waits: list[object]
    deadline: int  # monotonic nanoseconds
    flat: bool = False  # whether the containers in `waits` have been unpacked
    done: bool = False


class Watcher(Protocol):
    """Waits for devices on behalf of a tracer."""

    def hold(self, work: object) -> object:
        """Something to wait for, made on the caller's thread without blocking."""
        ...

    def watch(self, work: Work) -> None: ...

    def wait_for_work(self, timeout: float) -> None:
        """Wait until no work is left; abandon what is not done by then."""
        ...

    def poll(self) -> None:
        """Find out what is done so far, without blocking."""
        ...

    def expire(self) -> None:
        """Abandon work that is overdue."""
        ...

    def __len__(self) -> int: ...


Reader = Callable[[SpanFields, list[Span]], None]


class Tracer:
    """Collects the finished spans of a run."""

    def __init__(self, watcher: Watcher | None = None, wake: Callable[[], object] | None = None) -> None:
        self.done: deque[Span] = deque()
        self.dropped = 0
        self.step: int | float = 0  # the newest one; rows logged without a step belong to it
        self.by_hand: dict[int, Span] = {}
        self.on = True
        self.every = 0  # trace only steps that are multiples of it; 0: all
        self.concurrent: frozenset[str] | None = frozenset()  # names that may overlap on a device; None: all
        self._concurrent: dict[int, frozenset[str] | None] = {}  # the same by view, for views that chose their own
        self.deadline = DEADLINE
        self._devices: dict[tuple[str, int], Device] = {}  # by label and view
        self._landed: deque[tuple[Work, int, str]] = deque()  # with the time of completion, and the error
        self._watcher = watcher
        self._wake = wake
        self._newest = 0  # id
        self.idle = Idles(self.span)
        self._lock = threading.RLock()
        self.readers: list[Reader] = []  # called with every batch and its spans, on the thread that takes them
        self._taking = threading.RLock()

    def span(self, name: str, *, tags: object = None, devices: object = None) -> Span | Idle:
        if self.on or (self.every and self._is_sampled()):
            return Span(self, name, tags.copy() if type(tags) is dict else tags, devices)
        if tags is not None or devices is not None:
            return Idle(functools.partial(self.span, name, tags=tags, devices=devices))
        return self.idle[name]

    def set(
        self,
        enabled: bool,
        every: int | None = None,
        concurrent: str | Iterable[str] | None = None,
        deadline: float | None = None,
    ) -> None:
        """See `Run.trace`."""
        if every is not None and (not isinstance(every, int) or every < 1):
            raise ValueError(f"every must be a positive integer, not {every!r}")
        if deadline is not None:
            self.deadline = float(deadline)
        if concurrent is not None:
            self.concurrent = _names(concurrent)
        self.every = every if enabled and every is not None and every > 1 else 0
        self.on = enabled and not self.every

    def let_overlap(self, view: int, names: str | Iterable[str]) -> None:
        """Let spans of these names overlap on a device in one view; "all" for any name."""
        self._concurrent[view] = _names(names)

    def number(self, span: Span) -> int:
        """The id of a span: 1, 2, ... in the order of the first request."""
        with self._lock:
            if not span.number:
                self._newest += 1
                span.number = self._newest
            return span.number

    def hold(self, work: object) -> object:
        try:
            return work if self._watcher is None else self._watcher.hold(work)
        except Exception as error:  # an event that a device refuses, say
            messages.once("hold", f"a device cannot report completion: {error!r}; such spans end with their host part")
            return None

    def launch(self, span: Span) -> None:
        """Watch the devices of a span whose host part has ended; the parts on the devices end with their work."""
        try:
            waits, span.waits = span.waits, None  # so that arrays are not kept longer than needed
            work = Work(self, span, labels(span.devices), waits or [], span.stop + int(self.deadline * 1e9))
            if self._watcher is None or waits is None:
                self.finish_work(work, span.stop, span.error)
            else:
                self._watcher.watch(work)
        except Exception as error:
            messages.once("device span", f"the device part of span {span.name!r} is left out: {error!r}")

    def finish_work(self, work: Work, end: int, error: str = "") -> None:
        """Accept work that is done or abandoned; it is put on its devices' timelines when spans are taken, once."""
        if len(self._landed) <= WAKE or not self.is_full():
            self._landed.append((work, end, error))

    def end_by_hand(self) -> None:
        """End the spans that were started by hand and are still open, and mark them; called when the run ends."""
        for span in list(self.by_hand.values()):
            span.end(UNFINISHED)

    def wait_for_work(self, timeout: float) -> None:
        """Wait for the devices; work that is not done by then is marked."""
        if self._watcher is not None:
            self._watcher.wait_for_work(timeout)

    def poll(self) -> None:
        """End the parts on devices whose work is done."""
        if self._watcher is not None and len(self._watcher):
            self._watcher.poll()

    def expire(self) -> None:
        """Abandon device work that is overdue."""
        if self._watcher is not None and len(self._watcher):
            self._watcher.expire()

    def is_full(self) -> bool:
        """Wake the background thread; true if a span must be dropped, which is counted."""
        waiting = len(self.done) + len(self._landed)
        if self._wake is not None and waiting % 1000 == 0:
            self._wake()
        if waiting < MOST:
            return False
        self.dropped += 1
        return True

    def next_batch(self, offset: int, most: int = BATCH) -> SpanFields | None:
        """The fields of a `Spans` record for spans that have finished; None if there are none.

        `offset` is added to the monotonic clock of their starts. The readers have been called with the batch by then.
        """
        with self._taking:
            while (taken := self._next_batch(offset, most)) is not None:
                batch, done = taken
                for read in self.readers:
                    read(batch, done)
                doubles = {span.number for span in done if span.pair == DOUBLE}
                if len(doubles) < len(done):
                    return _without(batch, doubles) if doubles else batch
            return None

    def _next_batch(self, offset: int, most: int) -> tuple[SpanFields, list[Span]] | None:
        with self._lock:
            self._place()
            next_one = self.done.popleft
            done = [next_one() for _ in range(min(most, len(self.done)))]
            if not done:
                return None
            tags = _tags_of(done) if [span for span in done if span.tags is not None] else None
            if tags is not None and len(tags) < len(done):  # too much for one record
                self.done.extendleft(reversed(done[len(tags) :]))
                del done[len(tags) :]
            newest = self._newest
            for span in done:
                if not span.number:
                    if (outer := span.outer) is not None and not outer.number and outer.tracer is self:
                        outer.number = newest = newest + 1
                    span.number = newest = newest + 1
            self._newest = newest
        # By column and without calls: there may be ten thousand spans, and other threads want the interpreter.
        names = [span.name for span in done]
        if {*map(type, names)} != {str}:
            names = [convert.name(name) for name in names]
        name_at = {name: at for at, name in enumerate(dict.fromkeys(names))}
        lanes: list[Lane] = [span.lane for span in done]  # type: ignore[misc]
        labels_of = {lane: lane.label for lane in dict.fromkeys(lanes)}
        label_at = {label: at for at, label in enumerate(dict.fromkeys(labels_of.values()))}
        lane_at = {lane: label_at[label] for lane, label in labels_of.items()}
        steps = [span.step for span in done]
        if tags is not None or {*map(type, steps)} != {int}:
            steps = [_step(step, own) for step, own in zip(steps, tags or repeat(None, len(done)), strict=True)]
        failed = [span for span in done if span.error]
        batch = {
            "names": [convert.name(name) for name in name_at],
            "threads": [convert.name(label) for label in label_at],
            "name": [name_at[name] for name in names],
            "thread": [lane_at[lane] for lane in lanes],
            "id": [span.number for span in done],
            "parent": [0 if (outer := span.outer) is None else self._number(outer) for span in done],
            "start": [span.start + offset for span in done],
            "duration": [span.stop - span.start for span in done],
            "step": steps,
            "failed": [span.number for span in failed],
            "launched": [span.number for span in done if span.devices is not None],
            "tags": {str(span.number): own for span, own in zip(done, tags or (), strict=False) if own},
            "errors": {str(span.number): span.error for span in failed},
            "kinds": {convert.name(label): lane.kind for lane, label in labels_of.items() if lane.kind},
        }
        return batch, done

    def forget(self) -> None:
        """In a forked child: open spans belong to the parent."""
        self._lock, self._taking = threading.RLock(), threading.RLock()
        self.on, self.every = False, 0
        self.done.clear()
        self.by_hand.clear()
        spans.forget_open()

    def _place(self) -> None:
        """Put landed work on the timelines of its devices."""
        while self._landed:
            work, end, error = self._landed.popleft()
            if work.done:
                continue
            work.done = True
            span = work.span
            concurrent = self._concurrent.get(span.view, self.concurrent)
            together = concurrent is None or span.name in concurrent
            whole = labels(span.outer.devices) if span.pair == DOUBLE and span.outer is not None else ()
            for label in work.devices:
                device = self._devices.get((label, span.view))
                if device is None:
                    device = self._devices[label, span.view] = Device(label)
                begin, queued = (span.start, None) if together else device.place(span.start, end)
                parts = [Span(self, span.name, span.tags, None, device.lane, span, begin, end, span.step, error)]
                if queued is not None:
                    tags = {"name": span.name}
                    parts.insert(0, Span(self, "queue", tags, None, device.queue, span, *queued, span.step))
                for part in parts:
                    part.view, part.pair = span.view, DOUBLE if label in whole else 0
                    self._add(part)

    def _number(self, span: Span | None) -> int:
        while span is not None and (span.tracer is not self or span.pair == DOUBLE):  # of another run, or not written
            span = span.outer
        return 0 if span is None else span.number or self.number(span)

    def _add(self, span: Span) -> None:
        if len(self.done) <= WAKE or not self.is_full():
            self.done.append(span)

    def _is_sampled(self) -> bool:
        step = self.step
        return step - step != 0 or step % self.every == 0  # a step that is not finite is traced


def _names(concurrent: str | Iterable[str]) -> frozenset[str] | None:
    names = (concurrent,) if isinstance(concurrent, str) else tuple(concurrent)
    return None if "all" in names else frozenset(names)


def _without(batch: SpanFields, ids: set[int]) -> SpanFields:
    """A batch without the spans of these ids."""
    kept = [at for at, number in enumerate(batch["id"]) if number not in ids]
    return {
        **batch,
        **{column: [batch[column][at] for at in kept] for column in _COLUMNS},
        **{field: [number for number in batch[field] if number not in ids] for field in _IDS},
        **{field: {key: item for key, item in batch[field].items() if int(key) not in ids} for field in _BY_ID},
    }


def _tags_of(done: list[Span]) -> list[dict[str, Plain] | None]:
    """The tags of the first spans as plain data; of as many as fit in a record, but at least one."""
    tags: list[dict[str, Plain] | None] = []
    size = 0
    for span in done:
        own = None
        if span.tags is not None:
            plain = hide(convert.plain(span.tags))
            own = plain if isinstance(plain, dict) else {"tag": plain}
            bytes_ = len(msgspec.json.encode(own))
            if bytes_ > LARGEST:
                own, bytes_ = {"left out": f"{bytes_:,} bytes of tags"}, 0
            size += bytes_
            if size > LARGEST and tags:
                break
        tags.append(own)
    return tags


def _step(step: Number | None, tags: dict[str, Plain] | None) -> Number | None:
    """The step of a span: its tag of that name, or the run's step when it ended; None if it is not finite."""
    step = tags["step"] if tags and type(tags.get("step")) in (int, float) else step
    return step if type(step) is int or step is None or step - step == 0 else None
