"""Which pictures to draw of a run, and where: `<group>/<metric>.png` and one overview per group; then evaluation over
training, speed, GPUs, routers and ranks, if the run has such data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from matplotlib.figure import Figure

from chiplog.metrics.catalog import unit
from chiplog.store.contents.contents import LOGGED, Contents, MatrixFrame
from chiplog.store.contents.matrices import dense
from chiplog.store.reader import Stored
from chiplog.views.charts import matplotlib_figures
from chiplog.views.charts.curve_data import Curve, draw, main_series, reach
from chiplog.views.metric_families import ABOUT_RANKS, Family, families, filename
from chiplog.views.metric_groups import curves_of
from chiplog.views.without_warmup import after, dropped

MOST = 200  # pictures of single metrics; a run may have thousands
OVERVIEW = 12  # metrics in an overview
RIDGES = 12  # steps in a ridge plot
TIMES = 4  # steps at which a matrix is shown
SPEED = ("tokens_per_sec", "mfu", "sol", "step_time_sec", "data_time_sec", "tflops")
ABOUT = (f"{ABOUT_RANKS}/skew", f"{ABOUT_RANKS}/behind_sec")  # data about ranks that has a curve
GPU = (
    "power", "gpu_util", "utilization", "temperature", "temp", "memory_used", "dram_free", "clock", "sm_clock",
)  # fmt: skip


class PlannedPicture(NamedTuple):
    """A picture to draw: its path without an extension, its title, and a function that draws it.

    Save a figure before drawing the next one, which may reuse the same page.
    """

    stem: Path
    name: str
    figure: Callable[[], Figure]


class Made(NamedTuple):
    """A picture that was drawn, or the error."""

    name: str
    paths: list[Path]
    trouble: str = ""


def write(
    stored: Stored,
    folder: Path,
    formats: Sequence[str] = ("png",),
    *,
    chains: int = 128,
    warmup: int | float = 0,
    contents: Contents | None = None,
) -> Iterator[Made]:
    """Draw the pictures one by one; a failure does not affect the others."""
    for picture in pictures(stored, chains=chains, warmup=warmup, contents=contents):
        try:
            with matplotlib_figures.styled():
                paths = matplotlib_figures.save(picture.figure(), folder / picture.stem, formats)
        except Exception as error:
            yield Made(picture.name, [], f"{type(error).__name__}: {error}")
        else:
            yield Made(picture.name, paths)


def pictures(
    stored: Stored, *, chains: int = 128, warmup: int | float = 0, contents: Contents | None = None
) -> Iterator[PlannedPicture]:
    """All pictures of a run. A ridge plot shows at most `chains` values of a vector."""
    contents = contents or stored.contents(*LOGGED)
    stored = after(stored, warmup)
    curves: dict[str, Curve] = {}

    def drawn(family: Family) -> Curve:
        if family.name not in curves:
            curves[family.name] = draw(stored, family)
        return curves[family.name]

    taken: dict[Path, list[str]] = {}

    def place(group: str, name: str) -> Path:
        where = Path(filename(group)) if group else Path()
        free = filename(name, taken.setdefault(where, []))
        taken[where].append(free)
        return where / free

    shown = [family for family in curves_of(stored, contents) if len(main_series(stored, family))]
    yield from _together(stored, shown, drawn, place)
    groups: dict[str, list[Family]] = {}
    for family in shown:
        groups.setdefault(family.group, []).append(family)
    for group, members in groups.items():
        if len(members) > 1:
            name = f"{group or 'run'} overview"
            yield PlannedPicture(place(group, "overview"), name, partial(_overview, members[:OVERVIEW], drawn))
    pages: list[Figure] = []
    for family in shown[:MOST]:
        yield PlannedPicture(place(family.group, family.short), family.name, partial(_metric, family, drawn, pages))
    yield from _arrays(contents, place, chains, warmup)


Place: TypeAlias = Callable[[str, str], Path]  # of a picture by group and name
Drawn: TypeAlias = Callable[[Family], Curve]


def _metric(family: Family, drawn: Drawn, pages: list[Figure]) -> Figure:
    """The picture of one metric, on the previous page: creating a new one would double the time."""
    page = pages.pop() if pages else None
    pages.append(matplotlib_figures.metric(drawn(family), family.name, ranks=bool(family.curves), page=page))
    return pages[0]


def _overview(members: Sequence[Family], drawn: Drawn) -> Figure:
    """Small pictures of a group's metrics."""
    columns = min(3, len(members))
    rows = -(-len(members) // columns)
    left = 0.1 + max(matplotlib_figures.side([drawn(family)], 1.3) for family in members)
    width, height = columns * (2.25 + left) + 0.15, 2.0 * rows
    figure, axes = matplotlib_figures.new(width, height, rows, columns)
    figure.subplots_adjust(
        left=left / width, right=1 - 0.15 / width, top=1 - 0.3 / height, bottom=0.4 / height, hspace=0.55,
        wspace=left / 2.25,
    )  # fmt: skip
    for one, family in zip(axes, members, strict=False):
        matplotlib_figures.lines(one, {family.name: drawn(family)}, family.short, foot=False)
    for empty in axes[len(members) :]:
        empty.set_axis_off()
    return figure


# -- several series in one picture -------------------------------------------------------------------------------------


def _together(stored: Stored, shown: Sequence[Family], drawn: Drawn, place: Place) -> Iterator[PlannedPicture]:
    """Evaluation over training, speed, GPUs and ranks."""
    by_name = {family.name: family for family in shown}
    for name, family in by_name.items():
        other = by_name.get(f"train/{family.short}")
        if family.group == "eval" and other is not None and not name.endswith("tokens"):
            where = place("", f"eval_over_train_{family.short}")
            yield PlannedPicture(where, f"{name} over {other.name}", partial(_over, (other, family), drawn))
    for title, wanted in (("speed", SPEED), ("gpus", GPU)):
        usable = [one for one in shown if (one.group == "gpu") == (title == "gpus") and "smoothed" not in one.name]
        panels = [[one for one in usable if one.name.rpartition("/")[2] == what] for what in wanted]
        if panels := [panel for panel in panels if panel]:
            yield PlannedPicture(place("", title), title, partial(_stack, panels, drawn))
    about = [
        family
        for family in families(stored.names())
        if family.name in ABOUT and len(stored.series(family.name, missing_ok=True))
    ]
    if about:
        yield PlannedPicture(place("", "ranks"), "ranks", partial(_stack, [[one] for one in about], drawn))
    if len({attempt.rank for attempt in stored.attempts}) > 1:
        for name in by_name:
            if name.rpartition("/")[2] in ("step_time_sec", "loss"):
                yield PlannedPicture(place("", f"ranks_{name}"), f"{name} by rank", partial(_ranks, stored, name))


def _over(pair: Sequence[Family], drawn: Drawn) -> Figure:
    """Two metrics on the same axes."""
    curves = {one.name: drawn(one) for one in pair}
    figure, (axes,) = matplotlib_figures.new(7.2, 3.6)
    matplotlib_figures.frame(figure, list(curves.values()))
    matplotlib_figures.lines(axes, curves, " and ".join(reversed(curves)))
    return figure


def _stack(quantities: Sequence[Sequence[Family]], drawn: Drawn) -> Figure:
    """One panel per quantity, stacked, with a line per series. The legend is above the first panel."""
    panels = [{one.name: drawn(one) for one in members} for members in quantities]
    several = max(map(len, panels)) > 1
    sources = list(dict.fromkeys(name.rpartition("/")[0] or name for curves in panels for name in curves))
    colours = {source: matplotlib_figures.MANY[at % len(matplotlib_figures.MANY)] for at, source in enumerate(sources)}
    height = 1.5 * len(panels) + 0.6 + (0.25 if several else 0.0)
    figure, axes = matplotlib_figures.new(7.2, height, len(panels), 1)
    left = max(matplotlib_figures.side(list(curves.values()), 1.0) for curves in panels)
    figure.subplots_adjust(
        left=left / 7.2, right=0.98, top=1 - (0.55 if several else 0.3) / height, bottom=0.48 / height, hspace=0.5
    )
    span = reach([one for curves in panels for one in curves.values()])
    for one, curves in zip(axes, panels, strict=True):
        last = one is axes[-1]
        title = next(iter(curves)).rpartition("/")[2]
        own = [colours[name.rpartition("/")[0] or name] for name in curves]
        matplotlib_figures.lines(one, curves, title, colours=own, legend=False, foot=last, ticks=last, span=span)
    if several:
        matplotlib_figures.key(figure, colours)
    return figure


def _ranks(stored: Stored, name: str) -> Figure:
    """Steps from left to right, ranks from top to bottom."""
    steps, ranks, values = stored.series(name, missing_ok=True).by_rank()
    every = max(1, len(steps) // 1000)
    width, height = 7.2, min(6.0, 1.3 + 0.25 * len(ranks))
    figure, (axes,) = matplotlib_figures.new(width, height)
    figure.subplots_adjust(left=0.6 / width, right=1 - 0.95 / width, top=1 - 0.34 / height, bottom=0.5 / height)
    extent = (float(steps[0]), float(steps[-1]) + 1, len(ranks) - 0.5, -0.5)
    image = matplotlib_figures.heat(axes, values[::every].T, f"{name} by rank", extent=extent)
    axes.set_xlabel("step")
    axes.set_ylabel("rank")
    rows = range(0, len(ranks), max(1, len(ranks) // 8))
    axes.set_yticks(rows, [str(ranks[row]) for row in rows])
    matplotlib_figures.scale_beside(figure, image, unit(name))
    return figure


# -- arrays ------------------------------------------------------------------------------------------------------------


def _arrays(contents: Contents, place: Place, chains: int, warmup: int | float) -> Iterator[PlannedPicture]:
    """Vectors as ridge plots; matrices as heat maps at a few steps, and row by row over time."""
    for name, recorded in contents.matrices.items():
        ordered = sorted(recorded, key=lambda frame: frame.step or 0)
        logged = [frame for frame in ordered[dropped(warmup, len(ordered)) :] if frame.rows]
        family = families([name])[0]
        if not logged:
            continue
        if all(len(frame.rows) == 1 for frame in logged):
            where, figure = place(family.group, f"{family.short}_ridge"), partial(_ridge, name, logged, chains)
        else:
            where, figure = place(family.group, f"{family.short}_heat"), partial(_heat, name, logged)
        yield PlannedPicture(where, name, figure)


def _ridge(name: str, logged: Sequence[MatrixFrame], chains: int) -> Figure:
    chosen = _spread(logged, RIDGES)
    vectors = [dense(frame)[0][:chains] for frame in chosen]
    values = np.full((max(map(len, vectors)), len(vectors)), np.nan)
    for at, vector in enumerate(vectors):
        values[: len(vector), at] = vector
    figure, (axes,) = matplotlib_figures.new(7.2, 1.2 + 0.34 * len(chosen))
    figure.subplots_adjust(left=0.12, right=0.98, top=0.9, bottom=0.14)
    matplotlib_figures.ridge(axes, np.array([frame.step or 0 for frame in chosen]), values, name)
    return figure


def _heat(name: str, logged: Sequence[MatrixFrame]) -> Figure:
    """A matrix at a few steps: its rows (layers) from top to bottom, its columns (experts) from left to right."""
    chosen = _spread(logged, TIMES)
    matrices = [dense(frame) for frame in chosen]
    finite = np.concatenate([matrix[np.isfinite(matrix)] for matrix in matrices])
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if low == high:  # matplotlib would give one value two colours
        low, high = low - (abs(low) * 0.1 or 0.5), high + (abs(high) * 0.1 or 0.5)
    rows = len(matrices[0])
    width, height = 2.3 * len(chosen) + 1.4, max(2.2, min(6.0, 1.2 + 0.16 * rows))
    figure, axes = matplotlib_figures.new(width, height, 1, len(chosen), sharey=True)
    figure.subplots_adjust(left=0.55 / width, right=1 - 0.95 / width, top=1 - 0.62 / height, bottom=0.5 / height)
    for one, frame, matrix in zip(axes, chosen, matrices, strict=True):
        image = matplotlib_figures.heat(one, matrix, f"step {frame.step:,}", vmin=low, vmax=high)
        one.set_xlabel("expert" if "moe" in name or "expert" in name else "column")
    axes[0].set_ylabel("layer" if "moe" in name or "expert" in name else "row")
    figure.suptitle(name, x=0.55 / width, ha="left", fontsize=10, fontweight="bold")
    matplotlib_figures.scale_beside(figure, image, unit(name))
    return figure


def _spread(logged: Sequence[MatrixFrame], most: int) -> list[MatrixFrame]:
    """At most so many, evenly spaced from first to last."""
    places = np.unique(np.linspace(0, len(logged) - 1, min(most, len(logged))).round().astype(int))
    return [logged[at] for at in places.tolist()]
