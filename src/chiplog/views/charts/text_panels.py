"""Curves of different size in the terminal: one plot below the other, each with its own scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chiplog.views.charts.text_plot import Curve

APART = 10.0  # times larger: one of two curves on the same scale would be a flat line
SHORTEST = 6  # rows of a panel


def panels(curves: Sequence[Curve], names: Sequence[str], *, log: bool = False) -> list[list[Curve]]:
    """The curves that share a scale, in the order of their first one; those of one name always do.

    A logarithmic scale fits all of them.
    """
    if log or not curves:
        return [list(curves)]
    sizes: dict[str, float] = {}
    for name, (_, _, values) in zip(names, curves, strict=True):
        sizes[name] = max(sizes.get(name, 0.0), _size(values))
    groups: list[list[str]] = []
    for name, size in sizes.items():
        for group in groups:
            others = [sizes[other] for other in group if sizes[other]]
            if not size or not others or max(*others, size) <= APART * min(*others, size):
                group.append(name)
                break
        else:
            groups.append([name])
    return [[curve for name, curve in zip(names, curves, strict=True) if name in group] for group in groups]


def stacked(groups: Sequence[Sequence[Curve]], height: int, draw: Callable[[Sequence[Curve], int], str]) -> str:
    """The plots below each other, in about `height` rows, drawn by `draw(curves, rows)`."""
    rows = max(SHORTEST, height // len(groups)) if len(groups) > 1 else height
    return "\n".join(draw(group, rows) for group in groups)


def _size(values: object) -> float:
    """The largest value, without the few highest."""
    numbers = np.abs(np.asarray(values, dtype=np.float64).reshape(-1))
    numbers = numbers[np.isfinite(numbers)]
    return float(np.quantile(numbers, 0.95)) if len(numbers) else 0.0
