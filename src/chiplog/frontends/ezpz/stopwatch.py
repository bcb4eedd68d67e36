"""`StopWatch`: the engine's, which also reports its time, and records it under ezpz's names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

import chiplog
from chiplog.frontends.ezpz import messages

P = ParamSpec("P")
T = TypeVar("T")


class StopWatch:
    """Times a block, reports the time to the logger and, with `wbtag`, records it in the current run, beside the rows.

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
        self._watch = chiplog.stopwatch(msg)
        self._tag = None if wbtag is None else f"{prefix}{wbtag}"
        self._iter, self._reports = iter, log_output
        # As W&B gets it; the seconds are filled in when it stops.
        self.data: dict[str, float | None] = {} if wbtag is None else {f"{wbtag}/iter": iter, f"{wbtag}/dt": None}
        self._wbtag = wbtag

    @property
    def elapsed(self) -> float:
        """Seconds: so far while it runs, else those of the last time."""
        return self._watch.elapsed

    def __enter__(self) -> StopWatch:
        self._watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._watch.__exit__(kind, error, at)
        seconds = self._watch.last
        if self._reports:
            messages.info("%s took %.3f seconds", self._watch.name, seconds)
        if self._tag is not None:
            self.data[f"{self._wbtag}/dt"] = seconds
            if (run := chiplog.run) is not None:
                run.event(self._tag, dt=seconds, **({} if self._iter is None else {"iter": self._iter}))

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return timed
