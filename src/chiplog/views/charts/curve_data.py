"""Prepares a metric for any kind of picture: few points, and nothing hidden.

A long series becomes buckets with their lowest, mean and highest value. The scale covers the bulk of the values; single
values far beyond it are spikes, which a picture marks at its edge with their value, and NaN has its own marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from chiplog.metrics.catalog import unit
from chiplog.metrics.smoothing import SMOOTHED_FROM
from chiplog.store.points.columns import Floats
from chiplog.store.points.series import Buckets, Series
from chiplog.store.reader import Stored
from chiplog.views.metric_families import Family

POINTS = 500  # buckets
DECADES = 2.0  # from which a scale is logarithmic
FAR = 4.0  # times the range of the bulk, beyond which a value is a spike
LARGEST = 1e150  # value in a picture: matplotlib squares and sums values
SPIKES = 0.01  # of all points, at most
SMOOTH = 0.04  # of the buckets: the reach of the smoothed line
ROUGH = 0.002  # of the span: what the middle one of three differs from its neighbours, from which on a line is smoothed


Span: TypeAlias = tuple[float, float]


class Curve(NamedTuple):
    """A curve: `mean` with the band from `low` to `high`, and the smoothed line through it."""

    name: str
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    smooth: Floats
    nans: Floats  # where values are NaN
    spikes: list[tuple[float, float]]  # x and value of points beyond the scale
    bottom: float  # the scale
    top: float
    log: bool
    points: int  # of the series
    x_label: str = "step"


def draw(stored: Stored, family: Family, points: int = POINTS) -> Curve:
    """A metric over its steps; with statistics across ranks, their mean and the band from minimum to maximum."""
    return curve(main_series(stored, family), points, statistics(stored, family), family.name)


def statistics(stored: Stored, family: Family) -> dict[str, Series]:
    """The statistics across ranks of a metric, by statistic."""
    return {statistic: stored.series(name, missing_ok=True) for statistic, name in family.curves.items()}


def main_series(stored: Stored, family: Family) -> Series:
    """A metric's own values; if the main rank did not log it, the mean of the ranks that did."""
    series = stored.series(family.name, missing_ok=True)
    return (
        stored.series(family.curves["mean"], missing_ok=True) if not len(series) and "mean" in family.curves else series
    )


@np.errstate(all="ignore")  # as in `bucket`
def curve(series: Series, points: int = POINTS, stats: dict[str, Series] | None = None, name: str = "") -> Curve:
    buckets = series.buckets(points)
    stats = {stat: one for stat, one in (stats or {}).items() if len(one)}
    middle = stats["mean"].buckets(points) if "mean" in stats else buckets
    low = _at(stats["min"].buckets(points), middle, "min") if "min" in stats else middle.min
    high = _at(stats["max"].buckets(points), middle, "max") if "max" in stats else middle.max
    x = (middle.low.astype(np.float64) + middle.high.astype(np.float64)) / 2
    bottom, top, log = scale(low, high)
    beyond = [(float(at), float(value)) for at, value in zip(x, high, strict=True) if value > top]
    beyond += [(float(at), float(value)) for at, value in zip(x, low, strict=True) if value < bottom]
    return Curve(
        name=name or series.name,
        x=x,
        mean=np.clip(middle.mean, -LARGEST, LARGEST),
        low=np.clip(low, -LARGEST, LARGEST),
        high=np.clip(high, -LARGEST, LARGEST),
        smooth=_smooth_on(np.clip(middle.mean, bottom, top), log),
        nans=x[middle.nans > 0],
        spikes=beyond,
        bottom=bottom,
        top=top,
        log=log,
        points=len(series),
    )


def scale(low: Floats, high: Floats) -> tuple[float, float, bool]:
    """The ends of an axis, and whether it is logarithmic; spikes are beyond the ends."""
    values = np.concatenate([low, high])
    values = np.clip(values[np.isfinite(values)], -LARGEST, LARGEST)
    if not len(values):
        return 0.0, 1.0, False
    few, many = np.quantile(values, [SPIKES, 1 - SPIKES])
    log = bool(few > 0 and values.min() > 0 and many / few >= 10**DECADES)
    near = np.log10(values) if log else values
    bottom, top = (float(edge) for edge in np.quantile(near, [SPIKES, 1 - SPIKES]))
    span = max(top - bottom, 1e-12 * max(abs(top), abs(bottom)), 1e-300)
    # Only far values are beyond the scale; closer ones extend it.
    bottom = float(near[near >= bottom - FAR * span].min())
    top = float(near[near <= top + FAR * span].max())
    if top - bottom <= 1e-12 * max(abs(top), abs(bottom)):  # all the same
        room = 0.3 if log else abs(top) * 0.1 or 0.5
    else:
        room = (top - bottom) * 0.04
    bottom, top = bottom - room, top + room
    return (10.0 ** max(bottom, -300), 10.0**top, True) if log else (bottom, top, False)


def smooth(values: Floats) -> Floats:
    """A weighted mean of neighbours, with more weight for closer ones; NaN where there are none.

    A line that is already smooth, such as a learning rate, is unchanged. Near the ends fewer neighbours count, as many
    on both sides, so that a line that falls starts and ends where its values do.
    """
    if len(values) < SMOOTHED_FROM:
        return values
    widest = round(len(values) * SMOOTH)
    with np.errstate(all="ignore"):
        finite = np.isfinite(values)
        bend = np.abs(values[1:-1] - (values[:-2] + values[2:]) / 2)[finite[1:-1] & finite[:-2] & finite[2:]]
        if not len(bend) or not np.median(bend) > ROUGH * np.ptp(values[finite]):
            return values
        first, last = np.flatnonzero(finite)[[0, -1]].tolist()
        inner, there = np.where(finite, values, 0.0)[first : last + 1], finite[first : last + 1].astype(np.float64)
        smoothed = np.full(len(values), np.nan)
        smoothed[first : last + 1] = _weighted(inner, widest) / _weighted(there, widest)
    return smoothed


def _weighted(values: Floats, widest: int) -> Floats:
    """The weighted sums of neighbours up to this far away; near the ends, as far as there are some on both sides."""
    weights = _weights(widest)
    sums: Floats = np.convolve(values, weights, "same") if len(values) >= len(weights) else np.zeros(len(values))
    for near in range(len(values)):
        far = len(values) - 1 - near
        if near > far or near >= widest:
            break
        weights = _weights(near)
        sums[near] = values[: 2 * near + 1] @ weights
        sums[far] = values[far - near :] @ weights
    return sums


def _weights(widest: int) -> Floats:
    weights: Floats = np.bartlett(2 * widest + 3)[1:-1]
    return weights


def is_smoothed(drawn: Curve) -> bool:
    """Whether the line is smoother than the values, so that both are worth drawing."""
    inside = np.clip(drawn.mean, drawn.bottom, drawn.top)
    return not np.allclose(drawn.smooth, inside, rtol=1e-9, atol=0.0, equal_nan=True)


def _smooth_on(values: Floats, log: bool) -> Floats:
    """The smoothed line on its scale."""
    with np.errstate(all="ignore"):
        return 10.0 ** smooth(np.log10(values)) if log else smooth(values)


def deviation(values: Floats) -> float:
    """The standard deviation; exactly zero if all values are equal, despite rounding."""
    return 0.0 if values.min() == values.max() else float(values.std())


def reach(curves: Sequence[Curve]) -> Span:
    """The first and last x of curves; zeros if they have none."""
    ends = np.concatenate([one.x[[0, -1]] for one in curves if len(one.x)] or [np.zeros(1)])
    ends = ends[np.isfinite(ends)]
    return (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 0.0)


def label(names: Sequence[str]) -> str:
    """The label of the y axis for these series: their unit, if they share one."""
    units = {unit(name) for name in names}
    return units.pop() if len(units) == 1 else ""


def _at(other: Buckets, middle: Buckets, what: str) -> Floats:
    """Values of other buckets at the positions of these."""
    values: Floats = getattr(other, what)
    if len(other.low) == len(middle.low) and bool(np.array_equal(other.low, middle.low)):
        return values
    return np.interp(middle.low.astype(np.float64), other.low.astype(np.float64), values)
