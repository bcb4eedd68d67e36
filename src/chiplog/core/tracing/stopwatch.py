"""A stopwatch: the seconds of a stretch of work as a value, as a span, and as a metric if you name one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar

from chiplog.core.tracing.decorator import decorated
from chiplog.core.tracing.span import Idle, Span, here

P = ParamSpec("P")
T = TypeVar("T")


class MetricLogger(Protocol):
    """What a stopwatch needs of a run."""

    def span(self, name: str, *, tags: Mapping[str, Any] | None = None, devices: Any = None) -> Span | Idle: ...

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None) -> Any: ...


class StopWatch:
    """Times what is inside, as often as it is entered, also inside itself; works the same where nothing is recorded.

    Threads, asyncio tasks and calls of what it decorates may use one at once: each has times of its own.

    >>> with run.stopwatch("tokenize", metric="data/tokenize_sec") as watch: ...
    >>> watch.elapsed, watch.total, watch.count
    """

    def __init__(
        self,
        name: str,
        metric: str | None = None,
        *,
        run: Callable[[], MetricLogger | None],
        tags: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.name, self.metric, self.tags = name, metric, tags
        self.total = 0.0  # seconds of all that have ended; what is inside itself counts once
        self.count = 0
        self.last = 0.0  # seconds of the one that ended last
        self._run, self._clock = run, clock
        self._open: dict[tuple[int, int], list[_Lap]] = {}  # by thread and task, the innermost last

    @property
    def elapsed(self) -> float:
        """Seconds: so far while it runs on this thread or task, otherwise of the last time that has ended."""
        laps = self._open.get(here())
        return self._clock() - laps[-1].began if laps else self.last

    def start(self) -> StopWatch:
        return self.__enter__()

    def stop(self) -> float:
        """The seconds since its last start, on another thread if not on this one; 0 when it does not run."""
        lap = self._innermost()
        if lap is None:
            return 0.0
        lap.__exit__(None, None, None)
        return lap.seconds

    def __enter__(self) -> StopWatch:
        _Lap(self).__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        lap = self._innermost()
        if lap is not None:
            lap.__exit__(kind, error, at)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        return decorated(function, lambda: _Lap(self))

    def __repr__(self) -> str:
        return f"<stopwatch {self.name!r}: {self.elapsed:.3f} s, {self.total:.3f} s in {self.count}>"

    def _innermost(self) -> _Lap | None:
        laps = self._open.get(here()) or next(reversed(list(self._open.values())), None)
        return laps[-1] if laps else None


class _Lap:
    """One time that a stopwatch runs; ended by itself, whatever has begun since."""

    __slots__ = ("_inside", "_place", "_span", "_watch", "began", "seconds")

    def __init__(self, watch: StopWatch) -> None:
        self._watch = watch
        self.seconds = 0.0

    def __enter__(self) -> _Lap:
        watch = self._watch
        door = watch._run()
        self._span = None if door is None else door.span(watch.name, tags=watch.tags).__enter__()
        self._place = here()
        laps = watch._open.setdefault(self._place, [])
        self._inside = bool(laps)
        laps.append(self)
        self.began = watch._clock()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        watch = self._watch
        laps = watch._open.get(self._place, [])
        if self not in laps:  # stopped by hand
            return
        self.seconds = watch.last = watch._clock() - self.began
        watch.count += 1
        if not self._inside:
            watch.total += self.seconds
        laps.remove(self)
        if not laps:
            del watch._open[self._place]
        if self._span is not None:
            self._span.__exit__(kind, error, at)
        if watch.metric is not None and (door := watch._run()) is not None:
            door.log({watch.metric: self.seconds})
