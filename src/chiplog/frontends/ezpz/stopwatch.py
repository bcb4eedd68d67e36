"""`StopWatch`: the engine's, which also says its time and logs it under ezpz's names."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

from chiplog.core import run as engine
from chiplog.core import stopwatch

logger = logging.getLogger("chiplog.ezpz")

P = ParamSpec("P")
T = TypeVar("T")


class StopWatch:
    """Times what is inside, says it to the logger and, with `wbtag`, logs it to the current run.

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
            logger.info("%s took %.3f seconds", self._watch.name, took)
        if self._tag is not None and (run := engine.current) is not None:
            run.log({f"{self._tag}/dt": took, **({} if self._iter is None else {f"{self._tag}/iter": self._iter})})

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return timed
