"""Spans and stopwatches of whatever run is the current one: for code that knows of none."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from chiplog.core import run
from chiplog.core.tracing.span import Idle, Idles, Span
from chiplog.core.tracing.stopwatch import StopWatch


def span(name: str, tags: Mapping[str, Any] | None = None, devices: Any = None) -> Span | Idle:
    """`Run.span` on the current run; without one it does nothing, and costs next to nothing.

    As a decorator it belongs to the run that is the current one at each call, so it may stand above any function.
    """
    # Not by keyword only, here and in `Run.span`: CPython looks such arguments up in a dict at every call.
    current = run.current
    if current is not None:
        return current.span(name, tags=tags, devices=devices)
    if tags is None and devices is None:
        return _idle[name]
    return Idle(partial(span, name, tags=tags, devices=devices))


def stopwatch(name: str, metric: str | None = None, *, tags: Mapping[str, Any] | None = None) -> StopWatch:
    """`Run.stopwatch` on the run that is the current one whenever it is used; without one it only counts seconds."""
    return StopWatch(name, metric, run=lambda: run.current, tags=tags)


_idle = Idles(span)
