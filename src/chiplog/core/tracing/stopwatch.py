"""A stopwatch: the duration of some work as a value, as a span, and as a metric if you name one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from types import TracebackType
from typing import ParamSpec, Protocol, TypeVar

from chiplog.core.tracing.decorator import decorated
from chiplog.core.tracing.idle_span import Idle
from chiplog.core.tracing.span import Span, here

P = ParamSpec("P")
T = TypeVar("T")


class MetricLogger(Protocol):
    """What a stopwatch needs of a run."""

    def span(self, name: str, *, tags: Mapping[str, object] | None = None, devices: object = None) -> Span | Idle: ...

    def log(self, metrics: Mapping[str, object], step: int | float | None = None) -> object: ...


class StopWatch:
    """Times its body, as often as it is entered, even inside itself; works the same if nothing is recorded.

    Threads, asyncio tasks and calls of a decorated function may share one: each has its own times.

    >>> with run.stopwatch("tokenize", metric="data/tokenize_sec") as watch: ...
    >>> watch.elapsed, watch.total, watch.count
    """

    def __init__(
        self,
        name: str,
        metric: str | None = None,
        *,
        run: Callable[[], MetricLogger | None],
        tags: Mapping[str, object] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.name, self.metric, self.tags = name, metric, tags
        self.total = 0.0  # seconds of all laps that have ended; a lap inside another one is not counted twice
        self.count = 0
        self.last = 0.0  # seconds of the lap that ended last
        self._run, self._clock = run, clock
        self._open: dict[tuple[int, int], list[_Lap]] = {}  # by thread and task, the innermost last

    @property
    def elapsed(self) -> float:
        """Seconds so far if it runs on this thread or task; otherwise the seconds of the last lap."""
        laps = self._open.get(here())
        return self._clock() - laps[-1].began if laps else self.last

    def start(self) -> StopWatch:
        return self.__enter__()

    def stop(self) -> float:
        """End the lap started last, on this thread or else on another, and return its seconds; 0 if it does not run."""
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
    """One run of a stopwatch; it ends itself, whichever laps have started since."""

    __slots__ = ("_inside", "_place", "_span", "_watch", "began", "seconds")

    def __init__(self, watch: StopWatch) -> None:
        self._watch = watch
        self.seconds = 0.0

    def __enter__(self) -> _Lap:
        watch = self._watch
        run = watch._run()
        self._span = None if run is None else run.span(watch.name, tags=watch.tags).__enter__()
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
        if watch.metric is not None and (run := watch._run()) is not None:
            run.log({watch.metric: self.seconds})
