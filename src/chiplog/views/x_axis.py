"""The x axis of a curve: steps, tokens, time, or another series."""

from __future__ import annotations

import numpy as np

from chiplog.core.errors import BadSetting
from chiplog.metrics.catalog import progress_name
from chiplog.store.points.columns import Floats, Steps
from chiplog.store.points.series import Series
from chiplog.store.reader import Stored

SUMMED = ("tokens", "flops")  # often logged per step; an epoch is always a total


def over(stored: Stored, series: Series, what: str = "step") -> Floats:
    """The x of a series as users name it: `step`, `tokens` so far, `time` in seconds since the start, or a name."""
    if what in ("step", "time"):
        return positions(stored, series, "relative" if what == "time" else what)
    names = stored.names()
    if what in names and what != "tokens":
        return positions(stored, series, f"metric:{what}")
    if progress_name(what, names) is None:
        raise BadSetting(f"no series {what!r} for the x axis; use step, time, or one of: {', '.join(names)}")
    return positions(stored, series, what)


def positions(stored: Stored, series: Series, kind: str) -> Floats:
    """The x of each point of a series.

    `kind` is `step`, `time` (s), `relative` (s since the run began), `tokens`, `epoch`, `flops` or `metric:NAME`.
    Another series is looked up by step: a point has its newest value at that step or before, NaN where there is none.
    """
    if kind == "step" or not len(series):
        return series.steps.astype(np.float64)
    if kind in ("time", "relative"):
        times = series.times.view(np.int64)
        return (times - (0 if kind == "time" else stored.created or int(times.min()))) / 1e9
    name = kind.removeprefix("metric:") if kind.startswith("metric:") else progress_name(kind, set(stored.names()))
    if name is None:
        return np.full(len(series), np.nan)
    return _newest(*_by_step(stored.series(name, missing_ok=True), summed=kind in SUMMED), series.steps)


def _by_step(series: Series, *, summed: bool) -> tuple[Steps, Floats]:
    """The last value at every step, in order of steps; summed, unless they are totals already."""
    order = np.argsort(series.steps, kind="stable")
    steps, values = series.steps[order], series.values[order]
    last = np.append(steps[1:] != steps[:-1], True) if len(steps) else np.empty(0, bool)
    if summed and not _is_total(values[last]):
        values = np.cumsum(np.where(np.isfinite(values), values, 0.0))
    return steps[last], values[last]


def _is_total(values: Floats) -> bool:
    """Whether these are running totals: then each is above the one before."""
    finite = values[np.isfinite(values)]
    return bool((np.diff(finite) > 0).all())


def _newest(steps: Steps, values: Floats, wanted: Steps) -> Floats:
    at = np.searchsorted(steps, wanted, "right") - 1
    return np.where(at >= 0, values[np.maximum(at, 0)], np.nan) if len(values) else np.full(len(wanted), np.nan)
