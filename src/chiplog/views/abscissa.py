"""What a curve is drawn over: steps, tokens, time, or another series."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chiplog.core.errors import BadSetting
from chiplog.store.columns import Floats
from chiplog.store.reader import Stored
from chiplog.store.series import Series

TOKENS = ("train/tokens_seen", "tokens_seen", "train/total_tokens", "total_tokens", "train/tokens", "tokens")


class Abscissa(NamedTuple):
    """The x of a series' points, one each, and the word for it."""

    label: str
    values: Floats


def over(stored: Stored, series: Series, what: str = "step") -> Abscissa:
    """The x of a series: `step`; `tokens` seen so far; `time`, in seconds since its run began; or a name.

    Tokens and names are looked up by step: a point has the newest value at its step or before, and NaN where there is
    none.
    """
    if what == "step":
        return Abscissa(what, series.steps.astype(np.float64))
    if what == "time":
        began = np.int64(stored.created or (series.times.astype(np.int64).min() if len(series) else 0))
        return Abscissa("seconds", (series.times.astype(np.int64) - began) / 1e9)
    names = stored.names()
    name = next((one for one in TOKENS if one in names), None) if what == "tokens" and what not in names else what
    if name not in names:
        raise BadSetting(f"nothing is logged as {what!r} to draw over; there are step, time, and: {', '.join(names)}")
    steps, values = by_step(stored.series(name))
    if what == "tokens" and not _is_total(values):
        values = np.nancumsum(values)
    return Abscissa(what, _newest(steps, values, series.steps))


def by_step(series: Series) -> tuple[Floats, Floats]:
    """The last value at every step, in the order of the steps."""
    order = np.argsort(series.steps, kind="stable")
    steps, values = series.steps[order].astype(np.float64), series.values[order]
    last = np.append(steps[1:] != steps[:-1], True) if len(steps) else np.empty(0, bool)
    return steps[last], values[last]


def _is_total(values: Floats) -> bool:
    """Whether tokens were counted from the beginning: then each count is above the one before."""
    return len(values) < 2 or bool((np.diff(values) > 0).all())


def _newest(steps: Floats, values: Floats, wanted: np.ndarray) -> Floats:
    at = np.searchsorted(steps, wanted, "right") - 1
    return np.where(at >= 0, values[np.maximum(at, 0)], np.nan) if len(values) else np.full(len(wanted), np.nan)
