"""A stopwatch: the seconds of a stretch of work as a value, as a span, and as a metric if you name one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar

from chiplog.core.decorated import decorated
from chiplog.core.spans import Idle, Span

P = ParamSpec("P")
T = TypeVar("T")


class Door(Protocol):
    """What a stopwatch needs of a run."""

    def span(self, name: str, *, tags: Mapping[str, Any] | None = None, devices: Any = None) -> Span | Idle: ...

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None) -> Any: ...


class StopWatch:
    """Times what is inside, as often as it is entered, also inside itself; works the same where nothing is recorded.

    >>> with run.stopwatch("tokenize", metric="data/tokenize_sec") as watch: ...
    >>> watch.elapsed, watch.total, watch.count
    """

    def __init__(
        self,
        name: str,
        metric: str | None = None,
        *,
        run: Callable[[], Door | None],
        tags: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.name, self.metric, self.tags = name, metric, tags
        self.total = 0.0  # seconds of all that have ended; what is inside itself counts once
        self.count = 0
        self._last = 0.0
        self._run, self._clock = run, clock
        self._open: list[tuple[float, Span | Idle | None]] = []

    @property
    def elapsed(self) -> float:
        """Seconds: so far while it runs, of the last time when it has stopped."""
        return self._clock() - self._open[-1][0] if self._open else self._last

    def start(self) -> StopWatch:
        return self.__enter__()

    def stop(self) -> float:
        """The seconds since its last start; 0 when it does not run."""
        if not self._open:
            return 0.0
        self.__exit__(None, None, None)
        return self._last

    def __enter__(self) -> StopWatch:
        door = self._run()
        span = None if door is None else door.span(self.name, tags=self.tags).__enter__()
        self._open.append((self._clock(), span))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        now = self._clock()
        began, span = self._open.pop()
        self._last = now - began
        self.count += 1
        if not self._open:
            self.total += self._last
        if span is not None:
            span.__exit__(kind, error, at)
        if self.metric is not None and (door := self._run()) is not None:
            door.log({self.metric: self._last})

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        return decorated(function, lambda: self)

    def __repr__(self) -> str:
        return f"<stopwatch {self.name!r}: {self.elapsed:.3f} s, {self.total:.3f} s in {self.count}>"
