"""Figures by matplotlib: how curves, distributions and heat maps look. The one place that meets matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullLocator, ScalarFormatter

from chiplog.core.notes import clean
from chiplog.store.columns import Floats
from chiplog.views import units
from chiplog.views.drawn import SMOOTHED_FROM, Drawn, label, unit

# Okabe and Ito's colours, which people of all kinds of colour vision tell apart; black and yellow left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
ALARM, INK, FAINT = "#B00020", "#222222", "#999999"
HEAT = "cividis"  # even in lightness, and the same to all eyes
DPI = 110
Extent: TypeAlias = tuple[float, float, float, float]
# Without what would make two pictures of the same differ; quick rather than small.
SAVED: dict[str, dict[str, Any]] = {
    ".png": {"metadata": {"Software": None}, "pil_kwargs": {"compress_level": 2}},
    ".svg": {"metadata": {"Date": None}},
}
STYLE: Any = {
    "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelsize": 9,
    "axes.edgecolor": FAINT, "axes.labelcolor": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": "#e6e6e6", "grid.linewidth": 0.6, "axes.axisbelow": True, "xtick.color": INK,
    "ytick.color": INK, "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8, "legend.frameon": False,
    "svg.fonttype": "path", "svg.hashsalt": "chiplog", "path.simplify": True, "text.parse_math": False,
    "xtick.bottom": False, "ytick.left": False,
}  # fmt: skip


def new(width: float, height: float, rows: int = 1, columns: int = 1, **how: Any) -> tuple[Figure, list[Axes]]:
    """A figure of so many inches with axes; call it, and everything on it, within `styled()`."""
    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **how)
    return figure, list(axes.flat)


def styled() -> Any:
    """Our style, for as long as a `with` lasts; nobody else's is changed."""
    return mpl.rc_context(STYLE)


def save(figure: Figure, stem: Path, formats: Sequence[str]) -> list[Path]:
    """Write a figure under each of its endings; the same figure gives the same bytes."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in formats]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # a box for a letter that no font has is said enough
        for path in paths:
            figure.savefig(path, **SAVED.get(path.suffix, {}))
    return paths


def metric(drawn: Drawn, title: str, *, ranks: bool, page: Figure | None = None) -> Figure:
    """One metric: its curve, and beside it how its values are distributed; on the page of another one, if given."""
    if page is None:
        figure, (axes,) = new(7.2, 3.4)
        figure.subplots_adjust(left=0.1, right=0.87, top=0.9, bottom=0.14)
    else:
        figure, axes = page, page.axes[0]
        _wipe(axes)
    words = "from the lowest to the highest rank" if ranks else "all values"
    band(axes, drawn, COLOURS[0], words=words)
    dress(axes, [drawn], title)
    if len(drawn.x) > 1 and not (drawn.low == drawn.high).all():
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=3, handlelength=1.4, borderaxespad=0)
    _distribution(axes, drawn)
    return figure


def band(axes: Axes, drawn: Drawn, colour: str, *, words: str = "", name: str = "smoothed") -> None:
    """The band between the lowest and the highest values, the smoothed line, and marks for what has no place."""
    if len(drawn.x) == 1:
        axes.plot(drawn.x, drawn.mean, "o", color=colour, markersize=4, label=name)
    else:
        axes.fill_between(drawn.x, drawn.low, drawn.high, color=colour, alpha=0.22, linewidth=0, label=words or None)
        if len(drawn.x) >= SMOOTHED_FROM:
            axes.plot(drawn.x, drawn.mean, color=colour, alpha=0.4, linewidth=0.7)
        few = "." if len(drawn.x) < 40 else ""
        axes.plot(drawn.x, drawn.smooth, color=colour, linewidth=1.5, label=name, marker=few, markersize=4)
    _marks(axes, drawn)


def dress(axes: Axes, drawn: Sequence[Drawn], title: str, *, x: bool = True) -> None:
    """Scale, ticks, title and units; logarithmic where all curves want it."""
    shown = [one for one in drawn if len(one.x)]
    bottom, top = min((one.bottom for one in shown), default=0.0), max((one.top for one in shown), default=1.0)
    if shown and all(one.log for one in shown):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=8))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        axes.yaxis.set_minor_locator(NullLocator())  # hundreds of small ticks take longer than all the rest
    else:
        axes.yaxis.set_major_locator(MaxNLocator(6))
        if max(abs(bottom), abs(top)) >= 1e4:
            axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_ylim(bottom, top)
    axes.set_title(_short(title), y=1.0)
    axes.set_ylabel(label([one.name for one in shown]))
    if x and shown:
        axes.set_xlabel(shown[0].x_label)
        if max(float(one.x[-1]) for one in shown) >= 1e5:
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))


def heat(axes: Axes, values: Floats, title: str, *, extent: Extent | None = None, **how: Any) -> Any:
    """A matrix in colours; NaN is left white."""
    axes.grid(False)
    axes.set_title(_short(title), y=1.0)
    return axes.imshow(
        np.ma.masked_invalid(values), aspect="auto", cmap=HEAT, interpolation="nearest", extent=extent, **how
    )


def ridge(axes: Axes, steps: Floats, values: Floats, title: str) -> None:
    """The distribution of many values (rows) at several steps (columns), one above the other, the newest at the top."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    room = (high - low) * 0.08 or 0.5
    grid = np.linspace(low - room, high + room, 200)
    shades = mpl.colormaps[HEAT](np.linspace(0.1, 0.9, values.shape[1]))
    for row in range(values.shape[1] - 1, -1, -1):
        density = _density(values[:, row], grid)
        axes.fill_between(grid, row, row + 1.8 * density, color=shades[row], alpha=0.85, linewidth=0, zorder=-row)
        axes.plot(grid, row + 1.8 * density, color="white", linewidth=0.8, zorder=-row)
    axes.set_yticks(range(values.shape[1]), [units.count(step) for step in steps.tolist()])
    axes.grid(False)
    axes.set_title(_short(title), y=1.0)
    axes.set_ylabel("step")
    axes.set_xlabel(unit(title))


def lines(axes: Axes, curves: Mapping[str, Drawn], title: str, *, x: bool = True) -> None:
    """Several metrics over each other, each with its band."""
    for number, (name, drawn) in enumerate(curves.items()):
        band(axes, drawn, COLOURS[number % len(COLOURS)], name=_short(name))
    dress(axes, list(curves.values()), title, x=x)
    if len(curves) > 1:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=min(4, len(curves)), borderaxespad=0)


def _wipe(axes: Axes) -> None:
    """Take everything from axes but their ticks, which take longest to make."""
    for artist in (*axes.lines, *axes.collections, *axes.texts, axes.get_legend()):
        if artist is not None:
            artist.remove()
    axes.relim()
    axes.set_autoscalex_on(True)
    axes.set_yscale("linear")
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_major_formatter(ScalarFormatter())


def _marks(axes: Axes, drawn: Drawn) -> None:
    """NaN on the axis, spikes at the edge with the value of the furthest."""
    if len(drawn.nans):
        axes.plot(
            drawn.nans, np.zeros(len(drawn.nans)), "x", color=ALARM, markersize=5, clip_on=False, label="NaN",
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    for sign, edge, where in (("^", 1.0, 1), ("v", 0.0, -1)):
        found = [(x, value) for x, value in drawn.spikes if (value > drawn.top) == (where > 0)]
        if not found:
            continue
        axes.plot(
            [x for x, _ in found], [edge] * len(found), sign, color=ALARM, markersize=5, clip_on=False,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
        x, value = max(found, key=lambda one: abs(one[1]))
        left = x > (drawn.x[0] + drawn.x[-1]) / 2
        axes.annotate(
            units.number(value), (x, edge), (-7 if left else 7, -10 if where > 0 else 5), textcoords="offset points",
            xycoords=axes.get_xaxis_transform(), color=ALARM, fontsize=8, ha="right" if left else "left",
        )  # fmt: skip


def _distribution(axes: Axes, drawn: Drawn) -> None:
    """Beside the axes, on their scale: how often which values occur."""
    values = drawn.mean[np.isfinite(drawn.mean) & (drawn.mean >= drawn.bottom) & (drawn.mean <= drawn.top)]
    bins = np.geomspace(drawn.bottom, drawn.top, 31) if drawn.log else np.linspace(drawn.bottom, drawn.top, 31)
    if len(values) < 2 or not (np.diff(bins) > 0).all():
        return
    counts, _ = np.histogram(values, bins)
    axes.fill_betweenx(
        np.repeat(bins, 2)[1:-1], 1.015, 1.015 + 0.13 * np.repeat(counts, 2) / counts.max(), color=COLOURS[0],
        alpha=0.45, linewidth=0, transform=axes.get_yaxis_transform(), clip_on=False,
    )  # fmt: skip


def _density(values: Floats, grid: Floats) -> Floats:
    """A smooth histogram, its peak at one; the width of the kernel by Silverman's rule."""
    known = values[np.isfinite(values)]
    if not len(known):
        return np.zeros(len(grid))
    width = max(1.06 * float(known.std()) * len(known) ** -0.2, (grid[-1] - grid[0]) / 150)
    density: Floats = np.exp(-0.5 * ((grid[:, None] - known[None, :]) / width) ** 2).sum(axis=1)
    return density / (density.max() or 1.0)


def _short(text: str, most: int = 70) -> str:
    """A name for a title; what no font has is left to the font's own box."""
    text = clean(text)
    return text if len(text) <= most else text[: most - 1] + "…"
