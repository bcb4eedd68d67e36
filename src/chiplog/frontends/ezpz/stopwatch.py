"""`StopWatch`: the engine's, which also reports its time, and records it under ezpz's names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

import chiplog
from chiplog import Run
from chiplog.core.messages import once
from chiplog.core.values.text import words
from chiplog.frontends.ezpz import messages

P = ParamSpec("P")
T = TypeVar("T")


class StopWatch:
    """Times a block, reports the time to the logger and, with `wbtag`, records it apart from the rows in the current
    run and in an active run of W&B.

    >>> with StopWatch("forward pass", wbtag="timing/forward") as watch: ...
    >>> watch.elapsed
    """

    def __init__(
        self,
        msg: str,
        wbtag: str | None = None,
        iter: int | None = None,
        commit: bool = False,
        prefix: str = "StopWatch/",
        log_output: bool = True,
    ) -> None:
        self._watch = chiplog.stopwatch(msg)
        self._tag = None if wbtag is None else f"{prefix}{wbtag}"
        self._iter, self._commit, self._reports = iter, commit, log_output
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
            facts = {"dt": seconds, **({} if self._iter is None else {"iter": self._iter})}
            if (run := chiplog.run) is not None:
                run.event(self._tag, **facts)
            _log_to_active_wandb(run, {f"{self._tag}/{name}": value for name, value in facts.items()}, self._commit)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return timed


def _log_to_active_wandb(run: Run | None, row: Mapping[str, float], commit: bool) -> None:
    """Log to the run that the script has started with `wandb.init`; our own sink has its run from the journal."""
    active = getattr(sys.modules.get("wandb"), "run", None)
    sinks = run.post.sinks if run is not None and run.post is not None else {}
    if active is None or active is getattr(sinks.get("wandb"), "native", None):
        return
    try:
        active.log(dict(row), commit=commit)
    except Exception as error:  # the block it times must not fail
        once("stopwatch wandb", f"the time of a StopWatch is not at W&B: {words(error)}")
