"""`StopWatch`: the engine's, which also reports its time and logs it under ezpz's names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

from chiplog.core import run as engine
from chiplog.core.tracing import stopwatch
from chiplog.frontends.ezpz.messages import say

P = ParamSpec("P")
T = TypeVar("T")


class StopWatch:
    """Times what is inside, reports it to the logger and, with `wbtag`, logs it to the current run, as no row.

    >>> with StopWatch("forward pass", wbtag="timing/forward") as watch: ...
    >>> watch.elapsed
    """

    def __init__(
        self,
        msg: str,
        wbtag: str | None = None,
        iter: int | None = None,
        commit: bool = False,  # noqa: ARG002
        prefix: str = "StopWatch/",
        log_output: bool = True,
    ) -> None:
        self._watch = stopwatch.StopWatch(msg, run=lambda: engine.current)
        self._tag = None if wbtag is None else f"{prefix}{wbtag}"
        self._iter, self._says = iter, log_output
        # As W&B gets it; the seconds are there when it has stopped.
        self.data: dict[str, float | None] = {} if wbtag is None else {f"{wbtag}/iter": iter, f"{wbtag}/dt": None}
        self._wbtag = wbtag

    @property
    def elapsed(self) -> float:
        """Seconds: so far while it runs, of the last time when it has stopped."""
        return self._watch.elapsed

    def __enter__(self) -> StopWatch:
        self._watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._watch.__exit__(kind, error, at)
        took = self._watch.last
        if self._says:
            say("%s took %.3f seconds", self._watch.name, took)
        if self._tag is not None:
            self.data[f"{self._wbtag}/dt"] = took
            if (run := engine.current) is not None:
                run.event(self._tag, dt=took, **({} if self._iter is None else {"iter": self._iter}))

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return timed
