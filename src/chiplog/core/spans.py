"""The tracer: what ran when, in which thread, inside what; light enough to leave on for a whole run."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from itertools import count
from time import monotonic_ns
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from chiplog.core import values
from chiplog.core.redact import hide

MOST = 100_000  # finished spans that may wait for the keeper; more are dropped and counted

P = ParamSpec("P")
T = TypeVar("T")

_inside: ContextVar[int] = ContextVar("chiplog_span", default=0)


class Span:
    """One stretch of time: a context manager, or a decorator. Nested by context: threads and tasks are each right."""

    __slots__ = ("_tracer", "id", "name", "parent", "start", "tags")

    def __init__(self, tracer: Tracer, name: str, tags: Mapping[str, Any] | None) -> None:
        self._tracer = tracer
        self.name = name
        self.tags = tags

    def __enter__(self) -> Span:
        self.parent = _inside.get()
        self.id = next(self._tracer.ids)
        _inside.set(self.id)
        self.start = monotonic_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        end = monotonic_ns()
        _inside.set(self.parent)
        tracer = self._tracer
        if len(tracer.done) >= MOST:
            tracer.dropped += 1
            return
        tracer.done.append(
            (
                self.name,
                threading.get_ident(),
                self.id,
                self.parent,
                self.start,
                end - self.start,
                tracer.step,
                self.tags,
                kind,
            )
        )

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            with Span(self._tracer, self.name, self.tags):
                return function(*args, **kwargs)

        return timed


class NoSpan:
    """What `span` gives while tracing is off: one object for all."""

    __slots__ = ()

    def __enter__(self) -> NoSpan:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        return function


NO_SPAN = NoSpan()


class Tracer:
    """Collects finished spans and gives them out in batches."""

    def __init__(self) -> None:
        self.ids = count(1)
        self.done: deque[tuple[Any, ...]] = deque()
        self.dropped = 0
        self.step: int | float = 0  # the newest one, also for what is logged without
        self.enabled = True

    def span(self, name: str, tags: Mapping[str, Any] | None = None) -> Span | NoSpan:
        return Span(self, name, tags) if self.enabled else NO_SPAN

    def take(self, offset: int, most: int = 10_000) -> dict[str, Any] | None:
        """The fields of a `Spans` record for what has finished, with starts on the clock that is `offset` ahead of the
        monotonic one; None when nothing has."""
        if not self.done:
            return None
        names: dict[str, int] = {}
        threads: dict[int, int] = {}
        columns: dict[str, list[Any]] = {
            column: [] for column in ("name", "thread", "id", "parent", "start", "duration", "step", "failed")
        }
        tags: dict[str, Any] = {}
        for _ in range(most):
            try:
                name, thread, ident, parent, start, duration, step, tag, failed = self.done.popleft()
            except IndexError:
                break
            columns["name"].append(names.setdefault(values.name(name), len(names)))
            columns["thread"].append(threads.setdefault(thread, len(threads)))
            columns["id"].append(ident)
            columns["parent"].append(parent)
            columns["start"].append(start + offset)
            columns["duration"].append(duration)
            columns["step"].append(step)
            if tag is not None:
                tags[str(ident)] = tag if isinstance(tag := hide(values.plain(tag)), dict) else {"tag": tag}
            if failed is not None:
                columns["failed"].append(ident)
        called = {thread.ident: thread.name for thread in threading.enumerate()}
        return {
            "names": list(names),
            "threads": [called.get(ident, f"thread {ident}") for ident in threads],
            **columns,
            "tags": tags,
        }
