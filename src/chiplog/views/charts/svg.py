"""Small charts as SVG: no package needed, with colours from the surrounding page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import pairwise

import numpy as np

from chiplog.core import display
from chiplog.core.messages import clean
from chiplog.store.points.columns import Floats
from chiplog.views.charts.axes import Axis, axis_of
from chiplog.views.charts.curve_data import Curve, is_smoothed, label, reach
from chiplog.views.charts.heatmap import spread

WIDTH, HEIGHT = 380, 204
LEFT, RIGHT, TOP, BOTTOM = 48, 8, 20, 28  # margins
COLOURS = ("a", "b", "c", "d", "e", "f")  # names of the page's colours

Place = Callable[[Floats], Floats]


def chart(curves: Sequence[Curve], names: Sequence[str] = ()) -> str:
    """Curves on the same axes, each with its band; `names` are for the legend if there are several."""
    shown = [one for one in curves if len(one.x)]
    if not shown:
        return ""
    log = all(one.log for one in shown)
    y = axis_of(np.array([min(one.bottom for one in shown), max(one.top for one in shown)]), log, most=5)
    x = axis_of(np.array(reach(shown)), False, most=6, whole=True)
    down, right = HEIGHT - TOP - BOTTOM, WIDTH - LEFT - RIGHT

    def across(values: Floats) -> Floats:
        return LEFT + x.shares(values) * right

    def up(values: Floats) -> Floats:
        return TOP + (1 - np.clip(y.shares(values), -0.02, 1.02)) * down

    parts = [*_frame(x, y, across, up, label([one.name for one in shown]), shown[0].x_label)]
    for number, one in enumerate(shown):
        parts += _curve(one, COLOURS[number % len(COLOURS)], across, up)
    if len(names) > 1:
        parts += _legend(names)
    return _svg(parts)


def heat(values: Floats, rows: str, columns: str) -> str:
    """A matrix in shades of one colour, its rows from top to bottom."""
    low, high, shares = spread(values)
    if not np.isfinite(shares).any():
        return ""
    wide, tall = (WIDTH - LEFT - RIGHT) / values.shape[1], (HEIGHT - TOP - BOTTOM) / values.shape[0]
    parts = [
        f'<rect x="{LEFT + column * wide:.1f}" y="{TOP + row * tall:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
        f'fill="var(--a)" fill-opacity="{0.06 + 0.94 * share:.2f}"/>'
        for row, line in enumerate(shares.tolist())
        for column, share in enumerate(line)
        if share == share
    ]
    parts.append(_text(LEFT - 6, TOP + 9, f"{rows} 0", "end"))
    parts.append(_text(LEFT - 6, HEIGHT - BOTTOM, str(values.shape[0] - 1), "end"))
    parts.append(_text(LEFT, HEIGHT - 10, f"{columns} 0 to {values.shape[1] - 1}"))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 10, f"{display.number(low)} to {display.number(high)}", "end"))
    return _svg(parts)


def bars(edges: Sequence[float], counts: Sequence[float]) -> str:
    """A histogram: a bar per bin, as wide as its bin, with the edges and the highest count as labels."""
    most, width = max(counts, default=0.0), edges[-1] - edges[0] if edges else 0.0
    if not (most > 0 and 0 < width < float("inf")):
        return ""
    right, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [f'<path d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}" stroke="var(--line)"/>']
    for (low, high), count in zip(pairwise(edges), counts, strict=True):
        if count > 0:
            at, tall = LEFT + (low - edges[0]) / width * right, count / most * down
            parts.append(
                f'<rect x="{at:.1f}" y="{HEIGHT - BOTTOM - tall:.1f}" width="{(high - low) / width * right:.1f}" '
                f'height="{tall:.1f}" fill="var(--a)" fill-opacity=".8"/>'
            )
    parts.append(_text(LEFT - 5, TOP + 9, display.number(most), "end"))
    parts.append(_text(LEFT, HEIGHT - 10, display.number(edges[0])))
    parts.append(_text(WIDTH - RIGHT, HEIGHT - 10, display.number(edges[-1]), "end"))
    return _svg(parts)


def _svg(parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="11.5" font-family="inherit">{"".join(parts)}</svg>'
    )


def _frame(x: Axis, y: Axis, across: Place, up: Place, unit: str, x_label: str) -> Iterable[str]:
    for text, at in zip(y.labels, up(np.array(y.ticks)).tolist(), strict=True):
        yield f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="var(--line)"/>'
        yield _text(LEFT - 5, at + 3.5, text, "end")
    for text, at in zip(x.labels, across(np.array(x.ticks)).tolist(), strict=True):
        if at < WIDTH - 45:
            yield _text(at, HEIGHT - 10, text, "middle")
    yield _text(WIDTH - RIGHT, HEIGHT - 10, x_label, "end")
    if unit:
        yield _text(4, 9, unit)


def _curve(one: Curve, colour: str, across: Place, up: Place) -> Iterable[str]:
    xs = across(one.x)
    band = np.isfinite(one.low) & np.isfinite(one.high)
    if band.sum() > 1 and not (one.low[band] == one.high[band]).all():
        there = list(zip(xs[band].tolist(), up(one.high[band]).tolist(), strict=True))
        back = list(zip(xs[band].tolist(), up(one.low[band]).tolist(), strict=True))[::-1]
        yield f'<path d="M{_points([*there, *back])}Z" fill="var(--{colour})" fill-opacity=".22"/>'
    if len(one.x) == 1:
        yield f'<circle cx="{xs[0]:.1f}" cy="{up(one.mean)[0]:.1f}" r="3" fill="var(--{colour})"/>'
    else:
        if is_smoothed(one):
            line = _path(xs, up(one.mean))
            yield f'<path d="{line}" fill="none" stroke="var(--{colour})" stroke-width=".7" stroke-opacity=".4"/>'
        line = _path(xs, up(one.smooth))
        yield f'<path d="{line}" fill="none" stroke="var(--{colour})" stroke-width="1.6" stroke-linejoin="round"/>'
    for at in across(one.nans).tolist()[:60]:
        yield _mark(at, HEIGHT - BOTTOM, "×", "NaN")
    for at, value in one.spikes[:60]:
        above = value > one.top
        place = float(across(np.array([at]))[0])
        yield _mark(place, TOP - 2 if above else HEIGHT - BOTTOM + 4, "▲" if above else "▼", display.number(value))
    if one.spikes:
        at, value = max(one.spikes, key=lambda spike: abs(spike[1]))
        place = float(across(np.array([at]))[0])
        left = place > WIDTH / 2
        level = TOP + 8 if value > one.top else HEIGHT - BOTTOM - 6
        yield _text(place - 7 if left else place + 7, level, display.number(value), "end" if left else "start", "alarm")


def _legend(names: Sequence[str]) -> Iterable[str]:
    """A legend above the curves if all names fit in one line, otherwise inside the chart."""
    widths = [28 + 6.2 * len(name) for name in names]
    if len(names) <= len(COLOURS) and sum(widths) < WIDTH - LEFT - 60:
        for number, name in enumerate(names):
            at = WIDTH - RIGHT - sum(widths[number + 1 :])
            yield f'<path d="M{at - 14:.1f} 6h14" stroke="var(--{COLOURS[number]})" stroke-width="2.5"/>'
            yield _text(at - 18, 9, name, "end", "ink")
        return
    for number, name in enumerate(names[: len(COLOURS)]):
        at = TOP + 10 + 13 * number
        yield f'<path d="M{WIDTH - 24} {at - 3}h14" stroke="var(--{COLOURS[number]})" stroke-width="2.5"/>'
        yield _text(WIDTH - 28, at, name if len(name) < 45 else name[:44] + "…", "end", "ink")


def _path(xs: Floats, ys: Floats) -> str:
    """A line; NaN interrupts it."""
    out, pen = "", False
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if y != y:
            pen = False
            continue
        out += f"{'L' if pen else 'M'}{x:.1f} {y:.1f}"
        pen = True
    return out


def _points(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _mark(x: float, y: float, sign: str, words: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="9" fill="var(--alarm)">{sign}'
        f"<title>{escape(words)}</title></text>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "soft") -> str:
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{side} fill="var(--{colour})">{escape(clean(text))}</text>'
