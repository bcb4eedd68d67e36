"""Step by rank in a terminal: a cell for each, the darker the farther from the others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chiplog.core.notes import clean
from chiplog.store.series import ByRank
from chiplog.views import units
from chiplog.views.table import paint

SHADES, ASCII_SHADES = "·░▒▓█", ".:+*#"
COLOURS = ("38;5;240", "38;5;71", "38;5;178", "38;5;208", "38;5;196")  # grey, green, yellow, orange, red
NOTHING = " "


def heatmap(
    matrix: ByRank, *, width: int, height: int, title: str = "", colour: bool = False, ascii: bool = False
) -> str:
    """How far each rank's value is from the median of its step, ranks down and steps across.

    Where several ranks or steps share a cell, the farthest one shows. A blank cell has no value. The scale is linear
    from 0 to the largest distance, which the last line names with its rank and step.
    """
    values = matrix.values
    if not np.isfinite(values).any():
        return f"{clean(title)}: no value is finite" if title else "no value is finite"
    away = distances(values)
    labels = [str(rank) for rank in matrix.ranks.tolist()]
    edge = max(4, *map(len, labels))
    rows = _bounds(len(matrix.ranks), max(1, height))
    columns = _bounds(len(matrix.steps), max(8, width - edge - 3))
    top = float(np.nanmax(away))
    shades = ASCII_SHADES if ascii else SHADES
    side = "|" if ascii else "│"
    lines = [clean(title)] if title else []
    for first, last in rows:
        cells = [_cell(away[low:high, first:last], top) for low, high in columns]
        text = "".join(NOTHING if shade is None else paint(shades[shade], COLOURS[shade], colour) for shade in cells)
        lines.append(f"{labels[first]:>{edge}} {side}{text}{side}")
    steps = matrix.steps
    foot = f"step {units.count(steps[0].item())}"
    end = units.count(steps[-1].item())
    lines.append(f"{'rank':>{edge}}  {foot}{end:>{max(1, len(columns) - len(foot))}}")
    at, who = np.unravel_index(int(np.nanargmax(away)), away.shape)
    lines.append(
        f"{shades[0]} 0 to {shades[-1]} {units.number(top)} from the median of the step; the farthest is rank "
        f"{labels[int(who)]} at step {units.count(steps[int(at)].item())}: {units.number(float(values[at, who]))}"
    )
    return "\n".join(lines)


def distances(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far every value is from the median of its step; NaN where there is none."""
    finite = np.where(np.isfinite(values), values, np.nan)
    some = np.isfinite(finite).any(axis=1)
    middle = np.full(len(finite), np.nan)
    middle[some] = np.nanmedian(finite[some], axis=1)
    away: NDArray[np.float64] = np.abs(finite - middle[:, None])
    return away


def _cell(block: NDArray[np.float64], top: float) -> int | None:
    known = block[np.isfinite(block)]
    if not len(known):
        return None
    return 0 if top == 0 else min(len(SHADES) - 1, int(float(known.max()) / top * len(SHADES)))


def _bounds(count: int, room: int) -> list[tuple[int, int]]:
    """At most `room` stretches of nearly equal length."""
    edges = np.linspace(0, count, min(count, room) + 1).astype(int).tolist()
    return list(pairwise(edges))
