"""Spans: what ran when, on which thread, task or device, inside what; light enough to leave on for a whole run.

A span is open on its caller's time, and everything else happens later, where the tracer is emptied. Spans of a thread
nest on its lane; those of asyncio tasks by context, so that a task keeps the span it was created in.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from threading import get_ident
from time import monotonic_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from chiplog.core.tracing.decorator import decorated
from chiplog.core.tracing.timelines import Lane

if TYPE_CHECKING:
    from chiplog.core.tracing.tracer import Tracer

WAKE = 20_000  # finished spans from which the background thread is asked to hurry
WHOLE, DOUBLE = 1, 2  # the outer one of two views' same span, and the inner one, which is not written

P = ParamSpec("P")
T = TypeVar("T")

_inside: ContextVar[Span | None] = ContextVar("chiplog_span", default=None)  # of asyncio tasks, and their threads
_in_tasks = False  # whether there has been a span in a task
_lanes: dict[int, Lane] = {}  # of everybody else, by the ident of the thread
_thread = threading.local()  # .stay: keeps the lane of a thread while it lives


class Span(msgspec.Struct, gc=False):
    """One stretch of time: `with run.span("forward"):`, a decorator, or `begin()` and `end()` by hand.

    With `devices` it has a second part on each of them, from its begin until what was given to `async_end` is done.
    """

    # A msgspec struct and not a class with slots: it is made in a third of the time.
    tracer: Tracer
    name: str
    tags: Any = None
    devices: Any = None
    lane: Lane | None = None
    outer: Span | None = None
    start: int = 0  # monotonic nanoseconds; 0: not begun
    stop: int = 0  # 0: not ended
    step: Any = None
    error: str = ""
    waits: list[Any] | None = None
    number: int = 0  # the id; given when somebody asks
    again: list[Span] | None = None  # this very object begun once more inside itself, or after its end
    view: int = 0  # whose it is, where several look at one tracer; 0: everybody's
    pair: int = 0  # WHOLE or DOUBLE, where two views have opened the same span

    def __enter__(self) -> Span:
        if self.start:
            return self._once_more()
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
        """Begin by hand; `end` may be called from any thread, and by then others may have begun and ended."""
        self.tracer.by_hand[id(self)] = self
        return self.__enter__()

    def end(self, error: str = "") -> None:
        """End by hand; an error marks it. Ending twice, or what never began, is nothing."""
        if self.tracer.by_hand.pop(id(self), None) is None:
            return
        self.__exit__(None, None, None)
        self.error = error or self.error

    def async_end(self, work: Any) -> None:
        """Let the part on the devices last until this is done: arrays or tensors, alone or in containers, or futures.

        Never waits. Of torch an event is recorded on the current stream; of JAX an output is meant that is not
        donated to the next step.
        """
        if self.again:
            return self.again[-1].async_end(work)
        held = self.tracer.hold(work)
        if self.waits is None:
            self.waits = [held]
        else:
            self.waits.append(held)

    def tag(self, **tags: Any) -> None:
        """Add tags to a span that has begun."""
        self.tags = {**(self.tags if isinstance(self.tags, Mapping) else {}), **tags}

    @property
    def id(self) -> int:
        return self.tracer.number(self)

    @property
    def elapsed(self) -> float:
        """Seconds from its begin to its end, or until now."""
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

    def _once_more(self) -> Span:
        inner = Span(self.tracer, self.name, self.tags, self.devices)
        self.again = [*(self.again or ()), inner]
        return inner.__enter__()


# Fields are set as in any class with slots, in a quarter of the time: a struct without gc has nothing to look after.
Span.__setattr__ = object.__setattr__  # type: ignore[method-assign]
Span.__delattr__ = object.__delattr__  # type: ignore[method-assign]


class Idle:
    """What `span` gives while nothing is traced: does nothing, one object for all spans of a name.

    As a decorator it asks again at every call, so that what is switched on later is traced.
    """

    __slots__ = ("_make",)
    id = 0
    elapsed = 0.0
    name = ""
    error = ""

    def __init__(self, make: Callable[[], Span | Idle] | None = None) -> None:
        self._make = make

    if TYPE_CHECKING:

        def __enter__(self) -> Idle: ...

        def __exit__(self, _k: object, _e: object, _t: object) -> None: ...

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        return function if self._make is None else decorated(function, self._make)

    def begin(self) -> Idle:
        return self

    def end(self, error: str = "") -> None:
        pass

    def async_end(self, work: Any) -> None:
        pass

    def tag(self, **tags: Any) -> None:
        pass


NO_SPAN = Idle()
# Both in C, in half the time: a variable that nobody sets gives `NO_SPAN`, and an empty text formats anything to
# itself, which is false, so that exceptions pass.
Idle.__enter__ = ContextVar("chiplog_no_span", default=NO_SPAN).get  # type: ignore[method-assign]
Idle.__exit__ = "".format  # type: ignore[method-assign, assignment]


class Idles(dict[str, Idle]):
    """The idle span of each name, made when it is first asked for; more names than a loop has are not kept."""

    MOST = 1000

    def __init__(self, span: Callable[[str], Span | Idle]) -> None:
        self._span = span

    def __missing__(self, name: str) -> Idle:
        idle = Idle(functools.partial(self._span, name))
        if len(self) < self.MOST:
            self[name] = idle
        return idle


def still_open(span: Span | None) -> Span | None:
    """The nearest span around that has not ended; others may end before what began inside them."""
    while span is not None and span.stop:
        span = span.outer
    return span


# -- where we are --------------------------------------------------------------------------------------------------


def _look_for_asyncio() -> Any:
    """The running event loop; a process without asyncio has none, and asyncio is not imported to find out."""
    global _running
    events = sys.modules.get("asyncio.events")
    if hasattr(events, "_get_running_loop") and hasattr(sys.modules.get("asyncio"), "current_task"):
        _running = events._get_running_loop  # type: ignore[union-attr]
        return _running()
    return None


_running: Callable[[], Any] = _look_for_asyncio


def here() -> tuple[int, int]:
    """The thread and the task, each as a number."""
    return get_ident(), 0 if _running() is None else id(sys.modules["asyncio"].current_task())


def _thread_lane() -> Lane:
    return _lanes.get(get_ident()) or _new_lane()


def _new_lane() -> Lane:
    ident = get_ident()
    lane = _lanes[ident] = Lane(_thread_name())
    _thread.stay = _Stay(ident)
    return lane


class _Stay:
    """Goes with its thread: idents are given again."""

    __slots__ = ("_ident",)

    def __init__(self, ident: int) -> None:
        self._ident = ident

    def __del__(self, forget: Callable[[int, None], object] = _lanes.pop) -> None:
        forget(self._ident, None)


def _thread_name() -> str:
    """The thread's name; with its ident where another living one has the same."""
    ident = get_ident()
    named = {thread.ident: thread.name for thread in threading.enumerate()}
    name = named.pop(ident, f"thread {ident}")
    return f"{name} ({ident})" if name in named.values() else name


def _task_lane() -> Lane:
    task = sys.modules["asyncio"].current_task()
    thread = _thread_lane()
    return thread if task is None else Lane(f"{thread.label}/{task.get_name()}", "task")


def lane_label() -> str:
    """The name of the timeline on which a span would be that this thread or task opens now."""
    return (_thread_lane() if _running() is None else _task_lane()).label


def left_behind() -> None:
    """In a forked child: nothing of what the parent has open is open here."""
    _inside.set(None)
    _lanes.clear()
    _thread.__dict__.clear()
