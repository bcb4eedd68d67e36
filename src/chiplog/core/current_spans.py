"""Spans and stopwatches on the current run, for code that is not passed a run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from chiplog.core import run
from chiplog.core.tracing.idle_span import Idle, Idles
from chiplog.core.tracing.span import Span
from chiplog.core.tracing.stopwatch import StopWatch


def span(name: str, tags: Mapping[str, object] | None = None, devices: object = None) -> Span | Idle:
    """`Run.span` on the current run; without a run it does nothing, at almost no cost.

    As a decorator it uses the run that is current at each call, so it may decorate any function.
    """
    # Not keyword-only, here and in `Run.span`: CPython looks up such arguments in a dict at every call.
    current = run.current
    if current is not None:
        return current.span(name, tags=tags, devices=devices)
    if tags is None and devices is None:
        return _idle[name]
    return Idle(partial(span, name, tags=tags, devices=devices))


def stopwatch(name: str, metric: str | None = None, *, tags: Mapping[str, object] | None = None) -> StopWatch:
    """`Run.stopwatch` on whichever run is current when it is used; without a run it only measures seconds."""
    return StopWatch(name, metric, run=lambda: run.current, tags=tags)


_idle = Idles(span)
