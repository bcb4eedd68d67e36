"""Figures by matplotlib: how curves, distributions and heat maps look. The one place that meets matplotlib."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path as File
from typing import Any, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from PIL import Image

from chiplog.core.notes import clean
from chiplog.store.columns import Floats
from chiplog.views import units
from chiplog.views.axes import Axis, axis_of
from chiplog.views.drawn import SMOOTHED_FROM, Drawn, label, unit

# Okabe and Ito's colours, which people of all kinds of colour vision tell apart; black and yellow left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
ALARM, INK, FAINT = "#B00020", "#222222", "#999999"
HEAT = "cividis"  # even in lightness, and the same to all eyes
DPI = 110
GRID = "#e6e6e6"
Extent: TypeAlias = tuple[float, float, float, float]
Span: TypeAlias = tuple[float, float]
STYLE: Any = {
    "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelsize": 9,
    "axes.edgecolor": FAINT, "axes.labelcolor": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.6, "axes.axisbelow": True, "xtick.color": INK,
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


def save(figure: Figure, stem: File, formats: Sequence[str]) -> list[File]:
    """Write a figure under each of its endings; the same figure gives the same bytes."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in formats]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # a box for a letter that no font has is said enough
        for path in paths:
            if path.suffix == ".png":
                _save_png(figure, path)
            else:
                figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def _save_png(figure: Figure, path: File) -> None:
    """Quick rather than small, and without the transparency that nothing has."""
    canvas: Any = figure.canvas
    canvas.draw()
    picture = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
    picture.save(path, compress_level=1, dpi=(DPI, DPI))


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
        _fill(axes, drawn.x, drawn.low, drawn.high, color=colour, alpha=0.22, label=words or None)
        if len(drawn.x) >= SMOOTHED_FROM:
            axes.plot(drawn.x, drawn.mean, color=colour, alpha=0.4, linewidth=0.7)
        few = "." if len(drawn.x) < 40 else ""
        axes.plot(drawn.x, drawn.smooth, color=colour, linewidth=1.5, label=name, marker=few, markersize=4)
    _marks(axes, drawn)


def dress(
    axes: Axes, drawn: Sequence[Drawn], title: str, *, foot: bool = True, ticks: bool = True, span: Span | None = None
) -> None:
    """Scale, ticks, title and units; logarithmic where all curves want it.

    `foot` says what x counts, `ticks` where; `span` is that of x, where others have the same.
    """
    shown = [one for one in drawn if len(one.x)]
    bottom, top = min((one.bottom for one in shown), default=0.0), max((one.top for one in shown), default=1.0)
    left, right = span or reach(shown)
    room = (right - left) * 0.05 or 0.5
    left, right = left - room, right + room
    if log := bool(shown) and all(one.log for one in shown):
        axes.set_yscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_title(_short(title), y=1.0)
    wide, tall = axes.bbox.width / DPI, axes.bbox.height / DPI  # inches
    x = axis_of(np.array([math.ceil(left), math.floor(right)], float), False, most=_most(wide / 0.38), whole=True)
    y = axis_of(np.array([bottom, top]), log, most=_most(tall / 0.2))
    _grid(axes, x._replace(low=left, high=right), y._replace(low=bottom, high=top), ticks=ticks)
    if foot and shown:
        axes.text(0.5, -0.27 / tall, shown[0].x_label, ha="center", va="top", transform=axes.transAxes, color=INK)
    if words := label([one.name for one in shown]):
        away = (0.16 + 0.075 * max(map(len, y.labels))) / wide
        axes.text(-away, 0.5, words, ha="right", va="center", rotation="vertical", transform=axes.transAxes, color=INK)


def reach(drawn: Sequence[Drawn]) -> Span:
    """Where curves begin and end."""
    ends = np.concatenate([one.x[[0, -1]] for one in drawn if len(one.x)] or [np.zeros(1)])
    ends = ends[np.isfinite(ends)]
    return (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 0.0)


def _most(ticks: float) -> int:
    return max(3, min(7, int(ticks)))


def _grid(axes: Axes, x: Axis, y: Axis, *, ticks: bool) -> None:
    """A line at every tick and its label, all in one: matplotlib's own ticks take longer than everything else."""
    axes.xaxis.set_visible(False)
    axes.yaxis.set_visible(False)
    wide, tall = axes.bbox.width / DPI, axes.bbox.height / DPI
    across, up = x.shares(np.array(x.ticks)).tolist(), y.shares(np.array(y.ticks)).tolist()
    lines = [[(at, 0.0), (at, 1.0)] for at in across] + [[(0.0, at), (1.0, at)] for at in up]
    axes.add_artist(LineCollection(lines, colors=GRID, linewidths=0.6, zorder=0.5, transform=axes.transAxes))
    small: Any = {"fontsize": 8, "color": INK, "transform": axes.transAxes}
    if ticks:
        for at, words in zip(across, x.labels, strict=True):
            axes.text(at, -0.07 / tall, words, ha="center", va="top", **small)
    for at, words in zip(up, y.labels, strict=True):
        axes.text(-0.07 / wide, at, words, ha="right", va="center_baseline", **small)


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


def lines(axes: Axes, curves: Mapping[str, Drawn], title: str, **how: Any) -> None:
    """Several metrics over each other, each with its band; the rest as `dress` has it."""
    for number, (name, drawn) in enumerate(curves.items()):
        band(axes, drawn, COLOURS[number % len(COLOURS)], name=_short(name))
    dress(axes, list(curves.values()), title, **how)
    if len(curves) > 1:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=4, borderaxespad=0)


def _fill(axes: Axes, x: Floats, low: Floats, high: Floats, **how: Any) -> None:
    """What lies between two lines, with a gap where either is NaN; as one path, which Agg fills three times as fast as
    the collection that `fill_between` makes."""
    known = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    runs = [one for one in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1) if len(one) > 1]
    if not runs:
        return
    edges = [np.concatenate([np.c_[x[one], low[one]], np.c_[x[one], high[one]][::-1]]) for one in runs]
    codes = [np.r_[Path.MOVETO, np.full(len(edge) - 1, Path.LINETO)] for edge in edges]
    axes.add_artist(PathPatch(Path(np.concatenate(edges), np.concatenate(codes)), linewidth=0, **how))


def _wipe(axes: Axes) -> None:
    """Take everything from axes that was put there."""
    for artist in (*axes.lines, *axes.patches, *axes.collections, *axes.texts, axes.get_legend()):
        if artist is not None:
            artist.remove()
    axes.set_yscale("linear")


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
    ends, widths = np.repeat(bins, 2)[1:-1], 1.015 + 0.13 * np.repeat(counts, 2) / counts.max()
    outline = Path([[1.015, ends[0]], *zip(widths, ends, strict=True), [1.015, ends[-1]]])
    look: Any = {"color": COLOURS[0], "alpha": 0.45, "linewidth": 0, "clip_on": False}
    axes.add_artist(PathPatch(outline, transform=axes.get_yaxis_transform(), **look))


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
