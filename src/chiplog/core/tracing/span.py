"""Spans: what ran when, on which thread, task or device, inside what; light enough to leave on for a whole run.

The caller pays only for opening and closing a span; the tracer does everything else when it is drained. Spans of a
thread nest on its lane. Spans of asyncio tasks nest by context, so a task keeps the span in which it was created.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from threading import get_ident
from time import monotonic_ns
from types import TracebackType
from typing import ParamSpec, Protocol, TypeVar

import msgspec

from chiplog.core.tracing.decorator import decorated

WAKE = 20_000  # finished spans from which the background thread is asked to hurry
WHOLE, DOUBLE = 1, 2  # two views opened the same span: the outer one, and the inner one, which is not written

P = ParamSpec("P")
T = TypeVar("T")

_inside: ContextVar[Span | None] = ContextVar("chiplog_span", default=None)  # the open span of a task and its threads
_in_tasks = False  # whether any task has opened a span
_lanes: dict[int, Lane] = {}  # the lanes of threads, by ident
_thread = threading.local()  # .stay: keeps the lane of a thread while it lives


class SpanCollector(Protocol):
    """What a span needs of its tracer."""

    step: int | float
    done: deque[Span]
    by_hand: dict[int, Span]

    def span(self, name: str, *, tags: object = None, devices: object = None) -> AbstractContextManager[object]: ...

    def number(self, span: Span) -> int: ...

    def hold(self, work: object) -> object: ...

    def launch(self, span: Span) -> None: ...

    def is_full(self) -> bool: ...


class Lane:
    """A timeline: of a thread (kind ""), a task, a device, or of the work that waits for a device (queue)."""

    __slots__ = ("kind", "label", "top")

    def __init__(self, label: str, kind: str = "") -> None:
        self.label = label
        self.kind = kind
        self.top: Span | None = None  # the innermost open span of a thread


class Span(msgspec.Struct, gc=False):
    """An interval of time: `with run.span("forward"):`, a decorator, or `begin()` and `end()` by hand.

    With `devices` it has a second part on each of them, from its start until the work passed to `async_end` is done.
    """

    # A msgspec struct rather than a class with slots: creating one takes a third of the time.
    tracer: SpanCollector
    name: str
    tags: object = None
    devices: object = None
    lane: Lane | None = None
    outer: Span | None = None
    start: int = 0  # monotonic nanoseconds; 0: not started
    stop: int = 0  # 0: not ended
    step: int | float | None = None
    error: str = ""
    waits: list[object] | None = None  # the work that the part on the devices waits for
    number: int = 0  # the id; assigned on demand
    again: list[Span] | None = None  # this object entered again, inside itself or after its end
    view: int = 0  # the view it belongs to, if several share a tracer; 0: all of them
    pair: int = 0  # WHOLE or DOUBLE, if two views have opened the same span

    def __enter__(self) -> Span:
        if self.start:
            return self._enter_again()
        if _running() is None:
            try:
                lane = _lanes[get_ident()]
            except KeyError:
                lane = _new_lane()
            outer = lane.top
            if outer is None and _in_tasks:
                outer = _inside.get()
            lane.top = self
            self.lane = lane
            self.outer = outer
        else:
            self._enter_task()
        self.start = monotonic_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        stop = monotonic_ns()
        if self.again:
            return self.again.pop().__exit__(kind, _e, _t)
        self.stop = stop
        outer = self.outer
        if outer is not None and outer.stop:
            outer = still_open(outer)
        lane = self.lane
        if lane.top is self:  # type: ignore[union-attr]
            lane.top = outer  # type: ignore[union-attr]
        elif _inside.get() is self:
            _inside.set(outer)
        tracer = self.tracer
        self.step = tracer.step
        if kind is not None and kind is not GeneratorExit:
            self.error = kind.__name__
        if self.devices is not None:
            tracer.launch(self)
        done = tracer.done
        if len(done) > WAKE and tracer.is_full():
            return
        done.append(self)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        return decorated(function, functools.partial(self.tracer.span, self.name, tags=self.tags, devices=self.devices))

    def begin(self) -> Span:
        """Start by hand; `end` may be called from any thread, and spans need not end in reverse order."""
        self.tracer.by_hand[id(self)] = self
        return self.__enter__()

    def end(self, error: str = "") -> None:
        """End by hand; an error marks the span as failed. Ends nothing if it has ended already or never started."""
        if self.tracer.by_hand.pop(id(self), None) is None:
            return
        self.__exit__(None, None, None)
        self.error = error or self.error

    def async_end(self, work: object) -> None:
        """End the part on the devices when this work is done: arrays, tensors or futures, alone or in containers.

        Never blocks. For torch, an event is recorded on the current stream; for JAX, pass an output that is not donated
        to the next step.
        """
        if self.again:
            return self.again[-1].async_end(work)
        held = self.tracer.hold(work)
        if self.waits is None:
            self.waits = [held]
        else:
            self.waits.append(held)

    def tag(self, **tags: object) -> None:
        """Add tags to an open span."""
        self.tags = {**(self.tags if isinstance(self.tags, Mapping) else {}), **tags}

    @property
    def id(self) -> int:
        return self.tracer.number(self)

    @property
    def elapsed(self) -> float:
        """Seconds from its start to its end, or to now."""
        return ((self.stop or monotonic_ns()) - self.start) / 1e9 if self.start else 0.0

    def __repr__(self) -> str:
        return f"<span {self.name!r}, {self.elapsed:.6f} s>"

    def _enter_task(self) -> None:
        global _in_tasks
        _in_tasks = True
        outer = _inside.get()
        if outer is None or outer.stop:
            outer = _thread_lane().top if outer is None else still_open(outer)
        self.outer = outer
        self.lane = _task_lane()
        _inside.set(self)

    def _enter_again(self) -> Span:
        inner = Span(self.tracer, self.name, self.tags, self.devices)
        self.again = [*(self.again or ()), inner]
        return inner.__enter__()


# Sets fields as a class with slots does, in a quarter of the time: a struct without gc needs no bookkeeping.
Span.__setattr__ = object.__setattr__  # type: ignore[method-assign]
Span.__delattr__ = object.__delattr__  # type: ignore[method-assign]


def still_open(span: Span | None) -> Span | None:
    """The nearest open span, from this one outwards; an outer span may end before an inner one."""
    while span is not None and span.stop:
        span = span.outer
    return span


# -- the current thread and task ---------------------------------------------------------------------------------------


def _find_running_loop() -> object:
    """The running event loop; None in a process that has not imported asyncio, which is not imported to find out."""
    global _running
    events = sys.modules.get("asyncio.events")
    if hasattr(events, "_get_running_loop") and hasattr(sys.modules.get("asyncio"), "current_task"):
        _running = events._get_running_loop  # type: ignore[union-attr]
        return _running()
    return None


_running: Callable[[], object] = _find_running_loop


def here() -> tuple[int, int]:
    """The thread and the task, as numbers."""
    return get_ident(), 0 if _running() is None else id(sys.modules["asyncio"].current_task())


def _thread_lane() -> Lane:
    return _lanes.get(get_ident()) or _new_lane()


def _new_lane() -> Lane:
    ident = get_ident()
    lane = _lanes[ident] = Lane(_thread_name())
    _thread.stay = _Stay(ident)
    return lane


class _Stay:
    """Removes the lane when its thread ends, because idents are reused."""

    __slots__ = ("_ident",)

    def __init__(self, ident: int) -> None:
        self._ident = ident

    def __del__(self, forget: Callable[[int, None], object] = _lanes.pop) -> None:
        forget(self._ident, None)


def _thread_name() -> str:
    """The thread's name; with its ident if another running thread has the same name."""
    ident = get_ident()
    named = {thread.ident: thread.name for thread in threading.enumerate()}
    name = named.pop(ident, f"thread {ident}")
    return f"{name} ({ident})" if name in named.values() else name


def _task_lane() -> Lane:
    task = sys.modules["asyncio"].current_task()
    thread = _thread_lane()
    return thread if task is None else Lane(f"{thread.label}/{task.get_name()}", "task")


def lane_label() -> str:
    """The name of the timeline of a span opened on this thread or task."""
    return (_thread_lane() if _running() is None else _task_lane()).label


def forget_open() -> None:
    """In a forked child: the spans that the parent has open are not open here."""
    _inside.set(None)
    _lanes.clear()
    _thread.__dict__.clear()
