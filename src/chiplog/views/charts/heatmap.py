"""Heat maps in a terminal: steps by ranks, and any matrix, with one or several values per cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chiplog.core import display
from chiplog.core.display import paint
from chiplog.core.messages import clean
from chiplog.store.points.series import ByRank

NOTHING = " "


class Palette(NamedTuple):
    """The characters of a scale from low to high, and their styles if there is colour."""

    chars: str
    styles: tuple[str, ...] = ()


_FAR = ("38;5;240", "38;5;71", "38;5;178", "38;5;208", "38;5;196")  # grey, green, yellow, orange, red
FAR, ASCII_FAR = Palette("·░▒▓█", _FAR), Palette(".:+*#", _FAR)
LEVELS = Palette(" .:-=+*#%@")
_TONES = (17, 18, 54, 90, 126, 162, 197, 203, 208, 214, 220, 226)  # of 256 colours
TONES = Palette(NOTHING * len(_TONES), tuple(f"48;5;{tone}" for tone in _TONES))
GREYS = Palette(" ░▒▓█")


def heatmap(
    matrix: ByRank, *, width: int, height: int, title: str = "", colour: bool = False, ascii: bool = False
) -> str:
    """The distance of each rank's value from the median of its step, ranks down and steps across.

    If several ranks or steps share a cell, it shows the largest distance. A blank cell has no value. The scale is
    linear from 0 to the largest distance, which the last line reports with its rank and step.
    """
    values = matrix.values
    if not np.isfinite(values).any():
        return f"{clean(title)}: no finite values" if title else "no finite values"
    away = distances(values)
    labels = [str(rank) for rank in matrix.ranks.tolist()]
    edge = max(4, *map(len, labels))
    rows = _bounds(len(matrix.ranks), max(1, height))
    columns = _bounds(len(matrix.steps), max(8, width - edge - 3))
    top = float(np.nanmax(away))
    palette = ASCII_FAR if ascii else FAR
    side = "|" if ascii else "│"
    lines = [clean(title)] if title else []
    for first, last in rows:
        text = shaded([_farthest(away[low:high, first:last], top) for low, high in columns], palette, colour=colour)
        lines.append(f"{labels[first]:>{edge}} {side}{text}{side}")
    steps = matrix.steps
    foot = f"step {display.count(steps[0].item())}"
    end = display.count(steps[-1].item())
    lines.append(f"{'rank':>{edge}}  {foot}{end:>{max(1, len(columns) - len(foot))}}")
    at, who = np.unravel_index(int(np.nanargmax(away)), away.shape)
    step, value = display.count(steps[int(at)].item()), display.number(float(values[at, who]))
    lines.append(
        f"{palette.chars[0]} 0 to {palette.chars[-1]} {display.number(top)} from the median of the step; "
        f"the farthest is rank {labels[int(who)]} at step {step}: {value}"
    )
    return "\n".join(lines)


def distances(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance of every value from the median of its step; NaN where there is none."""
    finite = np.where(np.isfinite(values), values, np.nan)
    some = np.isfinite(finite).any(axis=1)
    middle = np.full(len(finite), np.nan)
    middle[some] = np.nanmedian(finite[some], axis=1)
    away: NDArray[np.float64] = np.abs(finite - middle[:, None])
    return away


def level_map(
    values: NDArray[np.float64], ranks: Sequence[int], *, width: int, height: int, colour: bool = False
) -> list[str]:
    """Ranks down, steps across; a cell shows the mean of its values, on a scale from minimum to maximum."""
    margin = max(len(str(rank)) for rank in ranks) + 6
    means = _means(_means(values, max(8, width - margin), 1), max(1, height - 2), 0)
    low, high, shares = spread(means)
    if not np.isfinite(shares).any():
        return ["no finite values"]
    palette = TONES if colour else LEVELS
    first = np.linspace(0, len(ranks), len(means) + 1).astype(int)[:-1]
    lines = [
        f"rank {ranks[at]:>{margin - 6}} {shaded(row, palette, colour=colour)}"
        for at, row in zip(first.tolist(), shares.tolist(), strict=True)
    ]
    scale = shaded(np.linspace(0, 1, 12).tolist(), palette, colour=colour)
    return [*lines, "", f"{display.number(low)} {scale} {display.number(high)}"]


def matrix_text(values: NDArray[np.float64]) -> str:
    """A matrix in five shades of grey, with two characters per cell."""
    return "\n".join(shaded(row, GREYS, wide=2) for row in spread(values)[2].tolist())


def shaded(shares: Iterable[float], palette: Palette, *, colour: bool = False, wide: int = 1) -> str:
    """A row of cells from 0 to 1; NaN is blank."""
    return "".join(_cell(share, palette, colour) * wide for share in shares)


def spread(values: NDArray[np.float64]) -> tuple[float, float, NDArray[np.float64]]:
    """The minimum and maximum of the finite values, and the position of each value between them, NaN if not finite."""
    finite = np.isfinite(values)
    low, high = (float(values[finite].min()), float(values[finite].max())) if finite.any() else (0.0, 1.0)
    shares: NDArray[np.float64] = np.where(finite, (values - low) / (high - low or 1.0), np.nan)
    return low, high, shares


def _cell(share: float, palette: Palette, colour: bool) -> str:
    if share != share:
        return NOTHING
    at = min(len(palette.chars) - 1, int(share * len(palette.chars)))
    return paint(palette.chars[at], palette.styles[at], colour) if palette.styles else palette.chars[at]


def _farthest(block: NDArray[np.float64], top: float) -> float:
    finite = block[np.isfinite(block)]
    return float(finite.max()) / (top or 1.0) if len(finite) else float("nan")


def _means(values: NDArray[np.float64], most: int, axis: int) -> NDArray[np.float64]:
    """At most so many values along an axis: the means of finite neighbours."""
    count = values.shape[axis]
    if count <= most:
        return values
    starts = np.linspace(0, count, most + 1).astype(int)[:-1]
    finite = np.isfinite(values)
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(np.where(finite, values, 0.0), starts, axis=axis)
        means: NDArray[np.float64] = sums / np.add.reduceat(finite.astype(np.int64), starts, axis=axis)
    return means


def _bounds(count: int, room: int) -> list[tuple[int, int]]:
    """At most `room` ranges of nearly equal length."""
    edges = np.linspace(0, count, min(count, room) + 1).astype(int).tolist()
    return list(pairwise(edges))
