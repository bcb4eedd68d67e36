"""`StopWatch`: the seconds of a stretch of work, said and logged; a span of the current run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from time import perf_counter
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from chiplog.core import run as engine

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
        self._msg, self._tag, self._iter, self._prefix, self._says = msg, wbtag, iter, prefix, log_output
        self._open: list[tuple[float, Any]] = []
        self.elapsed: float | None = None  # seconds of the last time

    def __enter__(self) -> StopWatch:
        run = engine.current
        span = None if run is None else run.span(self._msg).__enter__()
        self._open.append((perf_counter(), span))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        now = perf_counter()
        began, span = self._open.pop()
        self.elapsed = now - began
        if span is not None:
            span.__exit__(kind, error, at)
        if self._says:
            logger.info("%s took %.3f seconds", self._msg, self.elapsed)
        if self._tag is not None and (run := engine.current) is not None:
            row: dict[str, float] = {f"{self._prefix}{self._tag}/dt": self.elapsed}
            if self._iter is not None:
                row[f"{self._prefix}{self._tag}/iter"] = self._iter
            run.log(row)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return timed
