"""Runs side by side: settings, curves and machines, and whether a difference is more than noise.

A metric is compared at equal steps, tokens or seconds: at the last point that all runs reached. Its value there is the
mean over a window before that point; its uncertainty is the scatter around a straight line, with correlated points
counted as fewer. For a rare metric it is the last value, with the scatter of the last points around their neighbours.

    n' = n (1 - r) / (1 + r)        r: correlation of neighbours, at least 0
    se = s / sqrt(n')               s: standard deviation around the line
    z  = (b - a) / sqrt(se_a² + se_b²)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from chiplog.core import display
from chiplog.core.errors import BadSetting
from chiplog.core.suggestions import some
from chiplog.core.values.redact import redact
from chiplog.metrics.catalog import is_loss
from chiplog.store.points.columns import Floats
from chiplog.store.points.series import Series
from chiplog.store.reader import Stored
from chiplog.views.charts import svg
from chiplog.views.charts.curve_data import curve
from chiplog.views.charts.text_plot import line_plot
from chiplog.views.metric_families import families
from chiplog.views.report.build import flat
from chiplog.views.report.document import Block, Document, Grid, Picture, Section, Words
from chiplog.views.run_labels import labels
from chiplog.views.x_axis import over

WINDOW = 0.05  # of the length of a run, before the point of comparison
FEWEST = 8  # points in a window for an uncertainty
METRICS, PICTURES = 30, 12
ROUNDING = 1e-12  # of the values: a smaller scatter is none
BASES = ("step", "tokens", "time")
LIKELY, CLEAR = 2.0, 4.0  # z of a difference


class Measurement(NamedTuple):
    """A value with its uncertainty, which is NaN if there are too few points."""

    value: float
    error: float

    def differs(self, other: Measurement) -> float:
        """The difference from another estimate in standard errors; NaN if unknown."""
        error = math.hypot(self.error, other.error)
        gap = other.value - self.value
        if not math.isfinite(error):
            return math.nan
        return gap / error if error > 0 else math.copysign(math.inf, gap) if gap else 0.0


def compare(runs: Sequence[Stored], metrics: Sequence[str] = ()) -> Document:
    """Compare the first run with each of the others; all metrics they share, losses first, or the named ones."""
    if len(runs) < 2:
        raise BadSetting("a comparison needs at least two runs: chiplog compare A B")
    names = labels(runs)
    shared = list(metrics) or _shared(runs)
    nothing: list[Block] = [] if shared else [Words("The runs have no metric in common."), _metrics(runs, names)]
    sections = [
        Section("Runs", [_runs(runs, names)]),
        Section("Config", [_difference([dict(flat(redact(run.config))) for run in runs], names)]),
        Section("Metrics", nothing),
        *(Section(f"At equal {_noun(basis)}", list(_equal(runs, names, shared, basis))) for basis in BASES),
        Section("Curves", list(_pictures(runs, names, shared))),
        Section("Environment", [_difference([_environment(run) for run in runs], names)]),
    ]
    return Document(f"{names[0]} vs. {', '.join(names[1:])}", "", sections)


def estimate(x: Floats, values: Floats, at: float) -> Measurement:
    """A metric at a point, from the window before it."""
    there = (x <= at) & np.isfinite(values) & np.isfinite(x)
    x, values = x[there], values[there]
    if not len(values):
        return Measurement(math.nan, math.nan)
    order = np.argsort(x, kind="stable")
    x, values = x[order], values[order]
    inside = len(x) - int(np.searchsorted(x, at - WINDOW * (at - x[0])))
    if inside < FEWEST:  # rare, such as an evaluation: the last value, with the scatter around its neighbours
        return Measurement(float(values[-1]), _local_scatter(x[-FEWEST:], values[-FEWEST:]))
    spread, fewer = _scatter(x[-inside:], values[-inside:])
    return Measurement(float(values[-inside:].mean()), spread / math.sqrt(fewer))


def _local_scatter(x: Floats, values: Floats) -> float:
    """The standard deviation of points around the cubic through their four neighbours, which follows a bending curve.

    Points of a rare metric span much of a run: around a straight line, the bend of the curve would count as noise.
    """
    if len(values) < FEWEST:
        return math.nan
    middle, rest, weights = x[2:-2], -values[2:-2], np.ones(len(x) - 4)
    places = (0, 1, 3, 4)  # of the neighbours, among five points
    for place in places:
        weight = np.ones(len(middle))
        for other in places:
            if other != place:
                apart = _from(x, place) - _from(x, other)
                weight *= (middle - _from(x, other)) / np.where(apart == 0, 1e-300, apart)
        rest = rest + weight * _from(values, place)
        weights = weights + weight**2
    spread = float(np.sqrt(np.mean(rest**2 / weights)))
    return 0.0 if spread <= ROUNDING * float(np.abs(values).max()) else spread


def _from(points: Floats, place: int) -> Floats:
    """The points at one place of every five neighbours."""
    return points[place : len(points) - 4 + place]


def _scatter(x: Floats, values: Floats) -> tuple[float, float]:
    """The standard deviation around a straight line, and the number of independent points."""
    if len(values) < FEWEST:
        return math.nan, 1.0
    apart = x - x.mean()
    slope = float((apart * values).sum() / max((apart**2).sum(), 1e-300))
    rest = values - values.mean() - slope * apart
    spread = float(rest.std(ddof=2))
    if spread <= ROUNDING * float(np.abs(values).max()):
        return 0.0, float(len(values))
    alike = min(max(float((rest[1:] * rest[:-1]).sum() / (rest**2).sum()), 0.0), 0.99)
    return spread, max(1.0, len(values) * (1 - alike) / (1 + alike))


def verdict(z: float) -> str:
    if z == 0:
        return "equal"
    if math.isnan(z):
        return "too few points"
    return "clear" if abs(z) >= CLEAR else "likely" if abs(z) >= LIKELY else "within the noise"


# -- sections ----------------------------------------------------------------------------------------------------------


def _runs(runs: Sequence[Stored], names: Sequence[str]) -> Grid:
    rows = [
        [name, f"{run.project}/{run.id}", run.state, display.date(run.created) if run.created else ""]
        for name, run in zip(names, runs, strict=True)
    ]
    return Grid(["run", "id", "state", "started"], rows)


def _difference(settings: Sequence[Mapping[str, str]], names: Sequence[str]) -> Block:
    """The settings that differ between runs."""
    keys = dict.fromkeys(key for one in settings for key in one)
    rows = [[key, *(one.get(key, "—") for one in settings)] for key in keys]
    differ = [row for row in rows if len(set(row[1:])) > 1]
    if not differ:
        return Words("The same in all." if rows else "")
    same = len(rows) - len(differ)
    return Grid(
        ["setting", *names], differ, more=f"{same:,} {'is' if same == 1 else 'are'} the same in all" if same else ""
    )


def _equal(runs: Sequence[Stored], names: Sequence[str], metrics: Sequence[str], basis: str) -> Iterator[Block]:
    rows: list[list[str]] = []
    for metric in metrics[:METRICS]:
        rows += _rows(runs, names, metric, basis)
    values = list(names) if len(runs) == 2 else ["run", names[0], "its value"]
    head = ["metric", _noun(basis), *values, "difference", "%", "verdict"]
    yield Grid(head, rows, right=[name for name in head if name not in ("metric", "verdict", "run")])


def _rows(runs: Sequence[Stored], names: Sequence[str], metric: str, basis: str) -> Iterator[list[str]]:
    curves: list[tuple[Floats, Series]] = []
    for run in runs:
        series = run.series(metric, missing_ok=True)
        try:
            x = over(run, series, basis)
        except BadSetting:  # it does not count tokens
            return
        if not np.isfinite(x).any():
            return
        curves.append((x, series))
    at = min(float(x[np.isfinite(x)].max()) for x, _ in curves)
    first, *others = [estimate(x, series.values, at) for x, series in curves]
    if math.isnan(first.value):  # it has no point as early as the other run's last
        return
    for name, other in zip(names[1:], others, strict=True):
        if math.isnan(other.value):
            continue
        gap = other.value - first.value
        share = f"{gap / abs(first.value):+.2%}" if first.value and math.isfinite(gap) else ""
        yield [
            metric,
            display.number(at if at != int(at) else int(at)),
            *([] if len(names) == 2 else [name]),
            _with_error(first),
            _with_error(other),
            f"{gap:+.4g}",
            share,
            verdict(_z(first, other)),
        ]


def _z(first: Measurement, other: Measurement) -> float:
    """The difference in standard errors; zero for one value that both have, without an uncertainty."""
    same = first.value == other.value and not first.error > 0 and not other.error > 0
    return 0.0 if same else first.differs(other)


def _metrics(runs: Sequence[Stored], names: Sequence[str]) -> Grid:
    """What each run has logged."""
    logged = [[one.name for one in families(run.names()) if not one.counts] for run in runs]
    return Grid(["run", "metrics"], [[name, some(one) or "none"] for name, one in zip(names, logged, strict=True)])


def _pictures(runs: Sequence[Stored], names: Sequence[str], metrics: Sequence[str]) -> Iterator[Block]:
    for metric in metrics[:PICTURES]:
        series = [run.series(metric, missing_ok=True) for run in runs]
        drawn = [curve(one, 300) for one in series]
        curves = [(name, one.x, one.mean) for name, one in zip(names, drawn, strict=True)]
        yield Picture(metric, svg.chart(drawn, names), line_plot(curves, width=90, height=12, title=metric))


def _environment(run: Stored) -> dict[str, str]:
    return {key: value for key, value in flat(redact(run.environment)) if key not in ("cwd", "script", "executable")}


# -- words -------------------------------------------------------------------------------------------------------------


def _shared(runs: Sequence[Stored]) -> list[str]:
    """The metrics that all runs logged, losses first."""
    logged = [{name for name in run.names() if len(run.series(name, missing_ok=True))} for run in runs]
    both = [
        one.name for one in families(runs[0].names()) if not one.counts and all(one.name in names for names in logged)
    ]
    return sorted(both, key=lambda name: (not is_loss(name), name.startswith("gpu/"), name))


def _with_error(one: Measurement) -> str:
    return f"{one.value:.5g}" + (f" ± {one.error:.2g}" if math.isfinite(one.error) else "")


def _noun(basis: str) -> str:
    return {"step": "step", "tokens": "tokens", "time": "time, s"}[basis]
