"""Figures by matplotlib: curves, distributions and heat maps. The only module that uses matplotlib."""

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
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator
from PIL import Image

from chiplog.core import display
from chiplog.core.files.writing import make_place, replacing
from chiplog.core.messages import clean
from chiplog.metrics.catalog import unit
from chiplog.store.points.columns import Floats
from chiplog.views.charts.axes import Axis, axis_of
from chiplog.views.charts.curve_data import Curve, Span, is_smoothed, label, reach

# Okabe and Ito's colours, distinct for all kinds of colour vision; without black and yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
ALARM, INK, FAINT = "#B00020", "#222222", "#999999"
MANY = (*COLOURS, INK, "#888888")  # for more than six curves, such as the GPUs of a machine
HEAT = "cividis"  # even in lightness, and safe for colour blindness
DPI = 110
FEWEST = 20  # values whose distribution is worth drawing
GRID = "#e6e6e6"
BOLD, NARROW, UNIT = 0.08, 0.064, 0.16  # inches: a letter of a title, of a small label, and the line of a unit
Extent: TypeAlias = tuple[float, float, float, float]
STYLE: Any = {
    "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelsize": 9,
    "axes.edgecolor": FAINT, "axes.labelcolor": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.6, "axes.axisbelow": True, "xtick.color": INK,
    "ytick.color": INK, "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8, "legend.frameon": False,
    "svg.fonttype": "path", "svg.hashsalt": "chiplog", "path.simplify": True, "text.parse_math": False,
    "xtick.bottom": False, "ytick.left": False,
}  # fmt: skip


def new(width: float, height: float, rows: int = 1, columns: int = 1, **how: Any) -> tuple[Figure, list[Axes]]:
    """A figure with axes, size in inches; create it, and draw on it, within `styled()`."""
    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **how)
    return figure, list(axes.flat)


def styled() -> Any:
    """Apply our style within a `with` block; the user's style is restored."""
    return mpl.rc_context(STYLE)


def save(figure: Figure, stem: File, formats: Sequence[str]) -> list[File]:
    """Write a figure once per format; the same figure gives the same bytes."""
    make_place(stem.parent)
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in formats]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # a missing glyph already shows as a box
        for path in paths:
            with replacing(path) as temporary:
                if path.suffix == ".png":
                    _save_png(figure, temporary)
                else:
                    figure.savefig(temporary, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def _save_png(figure: Figure, path: File) -> None:
    """Fast rather than small, and without an alpha channel, which we do not use."""
    canvas: Any = figure.canvas
    canvas.draw()
    picture = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
    picture.save(path, compress_level=1, dpi=(DPI, DPI))


def metric(drawn: Curve, title: str, *, ranks: bool, page: Figure | None = None) -> Figure:
    """One metric: its curve, and the distribution of its values next to it; reuses a given page."""
    if page is None:
        figure, (axes,) = new(7.2, 3.4)
    else:
        figure, axes = page, page.axes[0]
        _wipe(axes)
    frame(figure, [drawn], bottom=0.48, right=0.94)
    values = "mean of the ranks" if ranks else "mean" if drawn.points > len(drawn.x) else "values"
    band(
        axes,
        drawn,
        COLOURS[0],
        words="lowest to highest rank" if ranks else "all values",
        name="smoothed" if is_smoothed(drawn) else values if ranks else "",
        faint=values,
    )
    dress(axes, [drawn], title)
    head(axes, title)
    _distribution(axes, drawn)
    return figure


def band(axes: Axes, drawn: Curve, colour: str, *, words: str = "", name: str = "", faint: str = "") -> None:
    """Draw the band from lowest to highest, the smoothed line, and marks for values off the scale.

    In the legend, `words` names the band, `name` the line, and `faint` the values under a smoothed line; the legend
    omits what is not drawn.
    """
    if len(drawn.x) == 1:
        axes.plot(drawn.x, drawn.mean, "o", color=colour, markersize=4, label=name or None)
    else:
        wide = bool((drawn.high > drawn.low).any())
        _fill(axes, drawn.x, drawn.low, drawn.high, color=colour, alpha=0.22, label=words if wide and words else None)
        if is_smoothed(drawn):
            axes.plot(drawn.x, drawn.mean, color=colour, alpha=0.4, linewidth=0.7, label=faint or None)
        few = "." if len(drawn.x) < 40 else ""
        axes.plot(drawn.x, drawn.smooth, color=colour, linewidth=1.5, label=name or None, marker=few, markersize=4)
    _marks(axes, drawn)


def dress(
    axes: Axes, drawn: Sequence[Curve], title: str, *, foot: bool = True, ticks: bool = True, span: Span | None = None
) -> None:
    """Set scale, ticks, title and units; logarithmic if all curves are.

    `foot` labels the x axis, `ticks` are its ticks; `span` is its range, to share it with other axes.
    """
    shown = [one for one in drawn if len(one.x)]
    left, right = span or reach(shown)
    room = (right - left) * 0.05 or 0.5
    left, right = left - room, right + room
    wide, tall = axes.bbox.width / DPI, axes.bbox.height / DPI  # inches
    y = _upright(shown, tall)
    if y.log:
        axes.set_yscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(y.low, y.high)
    axes.set_title(_short(title, wide), y=1.0)
    x = axis_of(np.array([math.ceil(left), math.floor(right)], float), False, most=_most(wide / 0.38), whole=True)
    inside = [(at, words) for at, words in zip(x.ticks, x.labels, strict=True) if left <= at <= right]
    x = Axis(left, right, False, [at for at, _ in inside], [words for _, words in inside])
    _grid(axes, x, y, ticks=ticks)
    if foot and shown:
        axes.text(0.5, -0.27 / tall, shown[0].x_label, ha="center", va="top", transform=axes.transAxes, color=INK)
    if words := label([one.name for one in shown]):
        away = (_beside(y) - UNIT) / wide
        axes.text(-away, 0.5, words, ha="right", va="center", rotation="vertical", transform=axes.transAxes, color=INK)


def frame(
    figure: Figure, drawn: Sequence[Curve], *, top: float = 0.34, bottom: float = 0.45, right: float = 0.14
) -> None:
    """Set the margins of a figure, in inches: on the left as wide as its labels."""
    width, height = figure.get_size_inches()
    left = side(drawn, height - top - bottom)
    figure.subplots_adjust(left=left / width, right=1 - right / width, top=1 - top / height, bottom=bottom / height)


def side(drawn: Sequence[Curve], tall: float) -> float:
    """The width in inches of labels and unit, left of axes of this height."""
    shown = [one for one in drawn if len(one.x)]
    return max(0.5, _beside(_upright(shown, tall)) + (0.1 if label([one.name for one in shown]) else 0.04 - UNIT))


def head(axes: Axes, title: str) -> None:
    """A legend right of the title; if both do not fit, the title moves above it."""
    handles, names = axes.get_legend_handles_labels()
    if not names:
        return
    wide = axes.bbox.width / DPI
    columns, across = len(names), sum(map(_legend_width, names))
    while across > wide and columns > 1:
        columns -= 1
        across = max(map(_legend_width, names)) * columns
    rows = -(-len(names) // columns)
    axes.legend(
        handles, [_short(name, wide - 0.5, NARROW) for name in names], loc="lower right", bbox_to_anchor=(1.0, 1.01),
        ncols=columns, handlelength=1.4, borderaxespad=0, borderpad=0.2, columnspacing=1.2,
    )  # fmt: skip
    if rows > 1 or len(_short(title, wide)) * BOLD + across > wide:
        figure: Any = axes.figure
        above = 0.19 * rows
        height = figure.get_size_inches()[1]
        figure.subplots_adjust(top=figure.subplotpars.top - above / height)
        axes.set_title(_short(title, wide), y=1.0 + above / (axes.bbox.height / DPI))


def key(figure: Figure, colours: Mapping[str, str]) -> None:
    """A legend above all axes of a figure: as many names as fit in one line."""
    wide, height = figure.get_size_inches()
    names, across = [], 0.6
    for name in list(colours)[: len(MANY)]:
        across += _legend_width(name)
        if across > wide:
            break
        names.append(name)
    signs = [Line2D([], [], color=colours[name], linewidth=1.5) for name in names]
    rest = f"and {len(colours) - len(names)} more" if len(names) < len(colours) else None
    figure.legend(
        signs, names, loc="upper right", bbox_to_anchor=(0.985, 1 - 0.02 / height), ncols=len(names) or 1,
        handlelength=1.4, borderaxespad=0, columnspacing=1.2, title=rest, title_fontsize=8,
    )  # fmt: skip


def _upright(shown: Sequence[Curve], tall: float) -> Axis:
    """The y axis that covers these curves, for axes of this height in inches."""
    bottom, top = min((one.bottom for one in shown), default=0.0), max((one.top for one in shown), default=1.0)
    log = bool(shown) and all(one.log for one in shown)
    return axis_of(np.array([bottom, top]), log, most=_most(tall / 0.2))._replace(low=bottom, high=top)


def _beside(y: Axis) -> float:
    """The distance in inches from an axis to the far side of its unit."""
    return 0.12 + NARROW * max(map(len, y.labels), default=0) + UNIT


def _legend_width(name: str) -> float:
    return 0.058 * len(name) + 0.38


def _most(ticks: float) -> int:
    return max(3, min(7, int(ticks)))


def _grid(axes: Axes, x: Axis, y: Axis, *, ticks: bool) -> None:
    """Draw grid lines and labels in one go: matplotlib's own ticks take longer than everything else."""
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
    axes.set_title(_short(title, axes.bbox.width / DPI), y=1.0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, integer=True))  # ranks, layers and experts are integers
    return axes.imshow(
        np.ma.masked_invalid(values), aspect="auto", cmap=HEAT, interpolation="nearest", extent=extent, **how
    )


def scale_beside(figure: Figure, image: Any, words: str = "") -> None:
    """A colour bar right of a heat map."""
    (width, height), room = figure.get_size_inches(), figure.subplotpars
    bar = figure.add_axes((room.right + 0.12 / width, room.bottom, 0.12 / width, room.top - room.bottom))
    figure.colorbar(image, cax=bar, ticks=MaxNLocator(_most(height * (room.top - room.bottom) / 0.3)))
    bar.set_title(words, fontsize=8, fontweight="normal")


def ridge(axes: Axes, steps: Floats, values: Floats, title: str) -> None:
    """The distribution of many values (rows) at several steps (columns), stacked, newest at the top."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    room = (high - low) * 0.08 or 0.5
    grid = np.linspace(low - room, high + room, 200)
    shades = mpl.colormaps[HEAT](np.linspace(0.1, 0.9, values.shape[1]))
    for row in range(values.shape[1] - 1, -1, -1):
        density = _density(values[:, row], grid)
        axes.fill_between(grid, row, row + 1.8 * density, color=shades[row], alpha=0.85, linewidth=0, zorder=-row)
        axes.plot(grid, row + 1.8 * density, color="white", linewidth=0.8, zorder=-row)
    axes.set_yticks(range(values.shape[1]), [display.count(step) for step in steps.tolist()])
    axes.grid(False)
    axes.set_title(_short(title, axes.bbox.width / DPI), y=1.0)
    axes.set_ylabel("step")
    axes.set_xlabel(unit(title))


def lines(
    axes: Axes,
    curves: Mapping[str, Curve],
    title: str,
    *,
    colours: Sequence[str] = COLOURS,
    legend: bool = True,
    **how: Any,
) -> None:
    """Several metrics on the same axes, each with its band; for the rest see `dress`."""
    for number, (name, drawn) in enumerate(curves.items()):
        band(axes, drawn, colours[number % len(colours)], name=name if len(curves) > 1 else "")
    dress(axes, list(curves.values()), title, **how)
    if legend and len(curves) > 1:
        head(axes, title)


def _fill(axes: Axes, x: Floats, low: Floats, high: Floats, **how: Any) -> None:
    """Fill the area between two lines, with gaps at NaN.

    As one path, which Agg fills three times as fast as the collection that `fill_between` makes.
    """
    finite = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    runs = [one for one in np.split(finite, np.flatnonzero(np.diff(finite) > 1) + 1) if len(one) > 1]
    if not runs:
        return
    edges = [np.concatenate([np.c_[x[one], low[one]], np.c_[x[one], high[one]][::-1]]) for one in runs]
    codes = [np.r_[Path.MOVETO, np.full(len(edge) - 1, Path.LINETO)] for edge in edges]
    axes.add_artist(PathPatch(Path(np.concatenate(edges), np.concatenate(codes)), linewidth=0, **how))


def _wipe(axes: Axes) -> None:
    """Clear axes."""
    for artist in (*axes.lines, *axes.patches, *axes.collections, *axes.texts, axes.get_legend()):
        if artist is not None:
            artist.remove()
    axes.set_yscale("linear")


def _marks(axes: Axes, drawn: Curve) -> None:
    """Mark NaN on the axis, and spikes at the edge with the value of the furthest."""
    if len(drawn.nans):
        axes.plot(
            drawn.nans, np.zeros(len(drawn.nans)), "x", color=ALARM, markersize=5, clip_on=False, label="NaN",
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    for sign, edge, where in (("^", 1.0, 1), ("v", 0.0, -1)):
        spikes = [(x, value) for x, value in drawn.spikes if (value > drawn.top) == (where > 0)]
        if not spikes:
            continue
        axes.plot(
            [x for x, _ in spikes], [edge] * len(spikes), sign, color=ALARM, markersize=5, clip_on=False,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
        x, value = max(spikes, key=lambda one: abs(one[1]))
        left = x > (drawn.x[0] + drawn.x[-1]) / 2
        axes.annotate(
            display.number(value), (x, edge), (-7 if left else 7, -10 if where > 0 else 5), textcoords="offset points",
            xycoords=axes.get_xaxis_transform(), color=ALARM, fontsize=8, ha="right" if left else "left",
        )  # fmt: skip


def _distribution(axes: Axes, drawn: Curve) -> None:
    """Draw the distribution of the values next to the axes, on the same scale; not of a few, nor of one constant."""
    values = drawn.mean[np.isfinite(drawn.mean) & (drawn.mean >= drawn.bottom) & (drawn.mean <= drawn.top)]
    bins = np.geomspace(drawn.bottom, drawn.top, 31) if drawn.log else np.linspace(drawn.bottom, drawn.top, 31)
    if len(values) < FEWEST or np.ptp(values) == 0 or not (np.diff(bins) > 0).all():
        return
    counts, _ = np.histogram(values, bins)
    ends, widths = np.repeat(bins, 2)[1:-1], 1.015 + 0.13 * np.repeat(counts, 2) / counts.max()
    outline = Path([[1.015, ends[0]], *zip(widths, ends, strict=True), [1.015, ends[-1]]])
    patch = PathPatch(outline, transform=axes.get_yaxis_transform(), color=COLOURS[0], alpha=0.45, linewidth=0)
    patch.set_clip_on(False)
    axes.add_artist(patch)


def _density(values: Floats, grid: Floats) -> Floats:
    """A smooth histogram with a peak of 1; the width of the kernel follows Silverman's rule."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.zeros(len(grid))
    width = max(1.06 * float(finite.std()) * len(finite) ** -0.2, (grid[-1] - grid[0]) / 150)
    density: Floats = np.exp(-0.5 * ((grid[:, None] - finite[None, :]) / width) ** 2).sum(axis=1)
    return density / (density.max() or 1.0)


def _short(text: str, wide: float, letter: float = BOLD) -> str:
    """A name shortened in the middle to fit a width in inches."""
    text, most = clean(text), max(8, int(wide / letter))
    if len(text) <= most:
        return text
    return f"{text[: (most - 1) // 3]}…{text[len(text) - (most - 1 - (most - 1) // 3) :]}"
