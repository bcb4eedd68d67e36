"""Which pictures a run deserves, and where they go: `<group>/<metric>.png` and one overview for each group; then
evaluation over training, speed, GPUs, routers and ranks, where the run has such data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from chiplog.core.records import NONFINITE, Matrix
from chiplog.store.columns import Floats
from chiplog.store.reader import Stored
from chiplog.views import figures
from chiplog.views.drawn import Drawn, curve, draw
from chiplog.views.facts import Facts
from chiplog.views.families import Family, families, filename, grouped

MOST = 200  # pictures of single metrics; a run may have thousands
OVERVIEW = 12  # metrics in an overview
RIDGES = 12  # steps in a ridge plot
TIMES = 4  # steps at which a matrix is shown
SPEED = ("tokens_per_sec", "mfu", "sol", "step_time_sec", "data_time_sec", "tflops")
GPU = ("power", "utilization", "temperature", "temp", "memory_used", "dram_free", "clock", "sm_clock")


class Picture(NamedTuple):
    """A picture to be made: its place without an ending, what it shows, and how it is drawn.

    A figure is to be saved before the next one is asked for, which may be drawn on the same page.
    """

    stem: Path
    name: str
    figure: Callable[[], Figure]


class Made(NamedTuple):
    """A picture that was made, or why it was not."""

    name: str
    paths: list[Path]
    trouble: str = ""


def write(
    stored: Stored,
    folder: Path,
    formats: Sequence[str] = ("png",),
    *,
    chains: int = 128,
    facts: Facts | None = None,
) -> Iterator[Made]:
    """Make the pictures, one after the other; one that fails costs nothing but itself."""
    for picture in pictures(stored, chains=chains, facts=facts):
        try:
            with figures.styled():
                paths = figures.save(picture.figure(), folder / picture.stem, formats)
        except Exception as error:
            yield Made(picture.name, [], f"{type(error).__name__}: {error}")
        else:
            yield Made(picture.name, paths)


def pictures(stored: Stored, *, chains: int = 128, facts: Facts | None = None) -> Iterator[Picture]:
    """All pictures of a run. `chains` values of a vector at most are in a ridge plot."""
    names = stored.names()
    known: dict[str, Drawn] = {}

    def drawn(family: Family) -> Drawn:
        if family.name not in known:
            known[family.name] = draw(stored, family)
        return known[family.name]

    taken: dict[Path, list[str]] = {}

    def place(group: str, name: str) -> Path:
        where = Path(filename(group)) if group else Path()
        free = filename(name, taken.setdefault(where, []))
        taken[where].append(free)
        return where / free

    shown = [family for family in families(names) if not family.counts and len(stored.series(family.name))]
    yield from _together(stored, names, place)
    for group, members in grouped(names).items():
        curves = [family for family in members if family in shown][:OVERVIEW]
        if len(curves) > 1:
            yield Picture(
                place(group, "overview"),
                f"{group or 'run'} overview",
                lambda curves=curves: _overview(curves, drawn),  # type: ignore[misc]
            )
    pages: list[Figure] = []
    for family in shown[:MOST]:
        yield Picture(
            place(family.group, family.short),
            family.name,
            lambda family=family: _metric(family, drawn, pages),  # type: ignore[misc]
        )
    yield from _arrays(facts or Facts(stored), place, chains)


Place = Callable[[str, str], Path]


def _metric(family: Family, drawn: Callable[[Family], Drawn], pages: list[Figure]) -> Figure:
    """The picture of one metric, on the page of the one before: half of the work is to make a new one."""
    page = pages.pop() if pages else None
    pages.append(figures.metric(drawn(family), family.name, ranks=bool(family.statistics), page=page))
    return pages[0]


def _overview(members: Sequence[Family], drawn: Callable[[Family], Drawn]) -> Figure:
    """Small pictures of a group's metrics."""
    columns = min(3, len(members))
    rows = -(-len(members) // columns)
    figure, axes = figures.new(3.1 * columns, 2.0 * rows, rows, columns)
    figure.subplots_adjust(
        left=0.08, right=0.985, top=1 - 0.3 / (2.0 * rows), bottom=0.4 / (2.0 * rows), hspace=0.55, wspace=0.32
    )
    for one, family in zip(axes, members, strict=False):
        figures.lines(one, {family.name: drawn(family)}, family.short, foot=False)
    for empty in axes[len(members) :]:
        empty.set_axis_off()
    return figure


# -- several series in one picture -------------------------------------------------------------------------------------


def _together(stored: Stored, names: Sequence[str], place: Place) -> Iterator[Picture]:
    """Evaluation over training, speed, GPUs and ranks."""

    def of(name: str) -> Drawn:
        return curve(stored.series(name))

    for name in names:
        other = "train/" + name.removeprefix("eval/")
        if name.startswith("eval/") and other in names and not name.endswith("tokens"):
            yield Picture(
                place("", f"eval_over_train_{name.removeprefix('eval/')}"),
                f"{name} over {other}",
                lambda pair=(other, name): _over({one: of(one) for one in pair}),  # type: ignore[misc]
            )
    speed = [[name for name in names if name.rpartition("/")[2] == what and "smoothed" not in name] for what in SPEED]
    if speed := [found for found in speed if found]:
        yield Picture(place("", "speed"), "speed", lambda: _stack([{n: of(n) for n in found} for found in speed]))
    gpu = [[name for name in names if name.startswith("gpu/") and name.rpartition("/")[2] == what] for what in GPU]
    if gpu := [found for found in gpu if found]:
        yield Picture(place("", "gpus"), "gpus", lambda: _stack([{n: of(n) for n in found} for found in gpu]))
    if len({attempt.rank for attempt in stored.attempts}) > 1:
        for name in names:
            if name.rpartition("/")[2] in ("step_time_sec", "loss"):
                yield Picture(
                    place("", f"ranks_{name}"),
                    f"{name} by rank",
                    lambda name=name: _ranks(stored, name),  # type: ignore[misc]
                )


def _over(curves: dict[str, Drawn]) -> Figure:
    figure, (axes,) = figures.new(7.2, 3.6)
    figure.subplots_adjust(left=0.09, right=0.98, top=0.91, bottom=0.13)
    figures.lines(axes, curves, " and ".join(reversed(curves)))
    return figure


def _stack(panels: Sequence[dict[str, Drawn]]) -> Figure:
    """One panel a quantity, under each other; each with a line a series."""
    height = 1.5 * len(panels) + 0.6
    figure, axes = figures.new(7.2, height, len(panels), 1)
    figure.subplots_adjust(left=0.1, right=0.98, top=1 - 0.3 / height, bottom=0.48 / height, hspace=0.5)
    span = figures.reach([one for curves in panels for one in curves.values()])
    for one, curves in zip(axes, panels, strict=True):
        last = one is axes[-1]
        figures.lines(one, curves, next(iter(curves)).rpartition("/")[2], foot=last, ticks=last, span=span)
    return figure


def _ranks(stored: Stored, name: str) -> Figure:
    """Steps from left to right, ranks from top to bottom."""
    steps, ranks, values = stored.series(name).by_rank()
    every = max(1, len(steps) // 1000)
    figure, (axes,) = figures.new(7.2, min(6.0, 1.6 + 0.25 * len(ranks)))
    figure.subplots_adjust(left=0.08, right=1.02, top=0.87, bottom=0.16)
    extent = (float(steps[0]), float(steps[-1]) + 1, len(ranks) - 0.5, -0.5)
    image = figures.heat(axes, values[::every].T, f"{name} by rank", extent=extent)
    axes.set_xlabel("step")
    axes.set_ylabel("rank")
    axes.set_yticks(range(0, len(ranks), max(1, len(ranks) // 8)))
    figure.colorbar(image, ax=axes, pad=0.02)
    return figure


# -- arrays ------------------------------------------------------------------------------------------------------------


def _arrays(facts: Facts, place: Place, chains: int) -> Iterator[Picture]:
    """Vectors as ridges; matrices as heat maps at a few steps, and row by row over time."""
    for name, recorded in facts.matrices.items():
        logged = [record for record in recorded if record.values]
        family = families([name])[0]
        if not logged:
            continue
        if all(len(record.values) == 1 for record in logged):
            yield Picture(
                place(family.group, f"{family.short}_ridge"),
                name,
                lambda name=name, logged=logged: _ridge(name, logged, chains),  # type: ignore[misc]
            )
        else:
            yield Picture(
                place(family.group, f"{family.short}_heat"),
                name,
                lambda name=name, logged=logged: _heat(name, logged),  # type: ignore[misc]
            )


def _ridge(name: str, logged: Sequence[Matrix], chains: int) -> Figure:
    chosen = _spread(logged, RIDGES)
    vectors = [_numbers(record)[0][:chains] for record in chosen]
    values = np.full((max(map(len, vectors)), len(vectors)), np.nan)
    for at, vector in enumerate(vectors):
        values[: len(vector), at] = vector
    figure, (axes,) = figures.new(7.2, 1.2 + 0.34 * len(chosen))
    figure.subplots_adjust(left=0.12, right=0.98, top=0.9, bottom=0.14)
    figures.ridge(axes, np.array([record.step or 0 for record in chosen]), values, name)
    return figure


def _heat(name: str, logged: Sequence[Matrix]) -> Figure:
    """A matrix at a few steps: its rows (layers) from top to bottom, its columns (experts) from left to right."""
    chosen = _spread(logged, TIMES)
    matrices = [_numbers(record) for record in chosen]
    finite = np.concatenate([matrix[np.isfinite(matrix)] for matrix in matrices])
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    rows = len(matrices[0])
    width, height = 2.3 * len(chosen) + 1.2, max(2.2, min(6.0, 1.2 + 0.16 * rows))
    figure, axes = figures.new(width, height, 1, len(chosen), sharey=True)
    figure.subplots_adjust(left=0.55 / width, right=1 - 0.75 / width, top=1 - 0.62 / height, bottom=0.5 / height)
    for one, record, matrix in zip(axes, chosen, matrices, strict=True):
        image = figures.heat(one, matrix, f"step {record.step:,}", vmin=low, vmax=high)
        one.set_xlabel("expert" if "moe" in name or "expert" in name else "column")
    axes[0].set_ylabel("layer" if "moe" in name or "expert" in name else "row")
    figure.suptitle(name, x=0.55 / width, ha="left", fontsize=10, fontweight="bold")
    bar = figure.add_axes((1 - 0.62 / width, 0.5 / height, 0.12 / width, 1 - 1.12 / height))
    figure.colorbar(image, cax=bar)
    return figure


def _numbers(record: Matrix) -> Floats:
    columns = max(map(len, record.values))
    out = np.full((len(record.values), columns), np.nan)
    for at, row in enumerate(record.values):
        out[at, : len(row)] = [NONFINITE[value] if isinstance(value, str) else value for value in row]
    return out


def _spread(logged: Sequence[Matrix], most: int) -> list[Matrix]:
    """At most so many, from the first to the last, evenly."""
    ordered = sorted(logged, key=lambda record: record.step or 0)
    places = np.unique(np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(int))
    return [ordered[at] for at in places.tolist()]
