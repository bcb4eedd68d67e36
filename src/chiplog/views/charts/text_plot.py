"""Curves, bands and histograms with axes for the terminal, and sparklines. Everything is returned as text.

No point is hidden: if several share a column, the line spans the lowest and the highest, and values off the scale (NaN,
infinities, zero on a log scale) are marked on the frame and counted below it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from chiplog.core.display import columns, cut, paint, unpainted
from chiplog.core.errors import BadSetting
from chiplog.core.messages import clean
from chiplog.metrics.smoothing import SMOOTHED_FROM, exponential_mean
from chiplog.store.points.columns import Floats
from chiplog.views.charts.axes import Axis, axis_of
from chiplog.views.charts.text_canvas import ASCII, COLOURS, FAINT, MARKERS, PLAIN, Pen, TextCanvas, x_labels

Curve: TypeAlias = tuple[str, ArrayLike, ArrayLike]  # label, x, y
Band: TypeAlias = tuple[ArrayLike, ArrayLike, ArrayLike]  # x, low, high

SMALLEST = (24, 3)  # columns and rows; a smaller plot is drawn at this size
BARS = (5, 40)  # of a histogram, minimum and maximum
SAMPLE = 10_000  # values whose median is that of a series, for a sparkline


def line_plot(
    curves: Sequence[Curve],
    *,
    width: int,
    height: int,
    log: bool = False,
    title: str = "",
    text_width: int | None = None,
    x_label: str = "step",
    colour: bool = False,
    ascii: bool = False,
    smooth: float | None = None,
    marker: str = "braille",
    glyphs: Sequence[str] = (),
    band: Band | None = None,
) -> str:
    """Curves over one pair of axes, `width` columns in all and `height` rows inside the frame.

    Without colour the first curve is dotted (`marker`: braille, fhd or hd) and each other curve has its own character;
    `glyphs` overrides them, one per curve, an empty one for dots. `smooth` (0 up to 1, the weight of the past) draws a
    smoothed line over the faint values of every curve of at least 20 points. `band` is shaded below all curves.
    Titles, labels and remarks are cut at `text_width`, by default the width of the plot.

        print(line_plot([("train/loss", steps, values)], width=80, height=12))
    """
    if smooth is not None and not 0 <= smooth < 1:
        raise ValueError(f"smooth must be at least 0 and below 1, not {smooth!r}")
    if marker not in MARKERS:
        raise BadSetting(f"unknown marker {marker!r}; available: {', '.join(MARKERS)}")
    pen = ASCII if ascii else PLAIN
    width, height = max(width, SMALLEST[0]), max(height, SMALLEST[1])
    traces = [_trace(*curve, pen) for curve in curves]
    x_label = _words(x_label, pen)
    head = [cut(_words(title, pen), text_width or width, pen.cut)] if title else []
    remarks = []
    if log and not any((trace.y > 0).any() for trace in traces):
        log = False
        if any(np.isfinite(trace.y).any() for trace in traces):
            remarks.append("no value is positive: the scale is linear, not logarithmic")
    edges = [] if band is None else [_trace("band", band[0], side, pen) for side in band[1:]]
    drawn = np.concatenate([_drawable(trace, log) for trace in (*traces, *edges)] or [np.zeros(0)])
    if not len(drawn):
        words = _nothing(traces) or ["nothing to draw: no curves"]
        return "\n".join([*head, *(cut(line, text_width or width, pen.cut) for line in words)])

    y_axis = axis_of(drawn, log, most=min(6, max(2, (height + 1) // 2)))
    margin = max(map(len, y_axis.labels)) + 1
    inner = width - margin - 2
    x_axis = axis_of(np.concatenate([trace.x for trace in traces]), False, most=max(2, inner // 9), whole=True)

    sheet = TextCanvas(inner, height, pen, colour, marker)
    if edges:
        sheet.band(edges[0].x, edges[0].y, edges[1].y, x_axis, y_axis, FAINT)
    signs = _signs(len(traces), glyphs, pen, colour)
    for number, (trace, sign) in enumerate(zip(traces, signs, strict=True)):
        _draw(sheet, trace, COLOURS[number % len(COLOURS)], sign, x_axis, y_axis, smooth, pen, colour)
        sheet.mark(trace.x, trace.y, x_axis, y_axis)
    lines = sheet.framed(x_axis, y_axis)
    lines.append(x_labels(x_axis, inner, margin, x_label))
    legend = (
        _legend(traces, signs, pen, colour, smooth, width, text_width) if len(traces) > 1 or smooth is not None else []
    )
    remarks += [remark for trace in traces for remark in _remarks(trace, log, pen, x_label)]
    return "\n".join([*head, *lines, *legend, *(cut(remark, text_width or width, pen.cut) for remark in remarks)])


def histogram(
    values: ArrayLike,
    *,
    width: int,
    height: int,
    title: str = "",
    x_label: str = "",
    colour: bool = False,
    ascii: bool = False,
    text_width: int | None = None,
) -> str:
    """A histogram as bars; values that are not finite are counted below."""
    pen = ASCII if ascii else PLAIN
    width, height = max(width, SMALLEST[0]), max(height, SMALLEST[1])
    series = np.asarray(values, dtype=np.float64).reshape(-1)
    finite = series[np.isfinite(series) & (np.abs(series) < 1e300)]
    head = [cut(_words(title, pen), text_width or width, pen.cut)] if title else []
    if not len(finite):
        count = f"{len(series):,} values, none of them finite" if len(series) else "no points"
        return "\n".join([*head, cut(f"nothing to draw: {count}", text_width or width, pen.cut)])
    x_axis = axis_of(finite, False, most=max(2, (width - 8) // 10))
    bins = max(BARS[0], min(BARS[1], math.ceil(2 * len(finite) ** (1 / 3))))
    counts, _ = np.histogram(finite, bins, (x_axis.low, x_axis.high))
    y_axis = axis_of(np.append(counts, 0).astype(np.float64), False, most=max(2, min(6, (height + 1) // 2)), whole=True)
    margin = max(map(len, y_axis.labels)) + 1
    inner = width - margin - 2
    sheet = TextCanvas(inner, height, pen, colour)
    sheet.bars(counts[np.arange(inner) * bins // inner].astype(np.float64), y_axis, COLOURS[0])
    lines = [*head, *sheet.framed(x_axis, y_axis), x_labels(x_axis, inner, margin, _words(x_label, pen))]
    if astray := len(series) - len(finite):
        lines.append(
            cut(f"  {pen.nan}  {astray:,} of {len(series):,} values have no place here", text_width or width, pen.cut)
        )
    return "\n".join(lines)


def beside(blocks: Sequence[str], gap: int = 2) -> str:
    """Blocks of text side by side."""
    split = [block.splitlines() for block in blocks]
    widths = [max((columns(unpainted(line)) for line in lines), default=0) for lines in split]
    rows = []
    for at in range(max(map(len, split), default=0)):
        cells = [lines[at] if at < len(lines) else "" for lines in split]
        padded = [cell + " " * (width - columns(unpainted(cell))) for cell, width in zip(cells, widths, strict=True)]
        rows.append((" " * gap).join(padded).rstrip())
    return "\n".join(rows)


def sparkline(values: ArrayLike, width: int, *, ascii: bool = False) -> str:
    """A series as one line of at most `width` characters; a column shows its most extreme value."""
    series = np.asarray(values, dtype=np.float64).reshape(-1)
    steps, bad = ("_.-=+*#@", "x") if ascii else ("▁▂▃▄▅▆▇█", "×")
    width = max(1, width)
    finite = series[np.isfinite(series)]
    if not len(finite):
        return bad * min(width, len(series))
    low, high, middle = finite.min(), finite.max(), float(np.median(finite[:: 1 + len(finite) // SAMPLE]))
    line = ""
    for column in np.array_split(series, min(width, len(series))):
        if not np.isfinite(column).all():
            line += bad
        elif low == high:
            line += steps[len(steps) // 2]
        else:
            shown = column[np.argmax(np.abs(column - middle))]
            line += steps[min(len(steps) - 1, int((shown / 2 - low / 2) / (high / 2 - low / 2) * len(steps)))]
    return line


# -- curves --------------------------------------------------------------------------------------------------


class _Trace(NamedTuple):
    label: str
    x: Floats  # finite, in order
    y: Floats
    astray: int  # points whose x is not finite


def _trace(label: str, x: ArrayLike, y: ArrayLike, pen: Pen) -> _Trace:
    xs = np.asarray(x, dtype=np.float64).reshape(-1)
    ys = np.asarray(y, dtype=np.float64).reshape(-1)
    if len(xs) != len(ys):
        raise ValueError(f"curve {label!r} has {len(xs)} x and {len(ys)} y")
    placed = np.isfinite(xs)
    astray = int(len(xs) - placed.sum())
    xs, ys = xs[placed], ys[placed]
    order = np.argsort(xs, kind="stable")
    return _Trace(_words(label, pen) or "(no name)", xs[order], ys[order], astray)


def _drawable(trace: _Trace, log: bool) -> Floats:
    kept: Floats = trace.y[np.isfinite(trace.y) & ((trace.y > 0) | (not log))]
    return kept


def _signs(count: int, glyphs: Sequence[str], pen: Pen, colour: bool) -> list[str]:
    """The character of each curve; empty for dots."""
    own = [pen.curves[number % len(pen.curves)] for number in range(count)]
    if pen is not ASCII:  # a second curve of the same colour has a character, too
        dotted = len(COLOURS) if colour else 1
        own = ["" if number < dotted else sign for number, sign in enumerate(own)]
    chosen = [glyph if pen is not ASCII or glyph.isascii() else "." for glyph in glyphs[:count]]
    return [*(sign or (own[at] if pen is ASCII else "") for at, sign in enumerate(chosen)), *own[len(chosen) :]]


def _draw(
    sheet: TextCanvas,
    trace: _Trace,
    style: str,
    sign: str,
    x: Axis,
    y: Axis,
    smooth: float | None,
    pen: Pen,
    colour: bool,
) -> None:
    if smooth is not None and len(trace.y) >= SMOOTHED_FROM:
        # Without colour it is an outline, so that the smoothed line is visible inside.
        sheet.line(trace.x, trace.y, x, y, f"{FAINT};{style}", glyph=pen.raw, outline=not colour)
        trace = trace._replace(y=np.array(exponential_mean(trace.y.tolist(), smooth)))
    sheet.line(trace.x, trace.y, x, y, style, glyph=sign)


# -- words ---------------------------------------------------------------------------------------------------


def _legend(
    traces: Sequence[_Trace],
    signs: Sequence[str],
    pen: Pen,
    colour: bool,
    smooth: float | None,
    width: int,
    text_width: int | None,
) -> list[str]:
    lines: list[str] = []
    used = width
    for number, (trace, own) in enumerate(zip(traces, signs, strict=True)):
        sign = (own or pen.line) * 2
        label = trace.label
        if smooth is not None and len(trace.y) >= SMOOTHED_FROM:
            raw = "faint" if colour else "dots" if pen is ASCII else "outline"
            label += f" (smoothed {smooth:g}, {raw}: all values)"
        label = cut(label, (text_width or width) - 5, pen.cut)
        text = f"  {paint(sign, COLOURS[number % len(COLOURS)], colour)} {label}"
        size = len(sign) + len(label) + 3
        if used + size > width:
            lines.append("")
            used = 0
        lines[-1] += text
        used += size
    return lines


def _remarks(trace: _Trace, log: bool, pen: Pen, x_label: str) -> list[str]:
    """The values of a curve that are off the scale, and where they start."""
    kinds = (
        (pen.nan, "NaN", np.isnan(trace.y)),
        (pen.above, "infinite", trace.y == np.inf),
        (pen.below, "minus infinity", trace.y == -np.inf),
        (pen.below, "not above 0 (log scale)", np.isfinite(trace.y) & (trace.y <= 0) & log),
    )
    points = f"of {len(trace.y):,} points, from {x_label}"
    remarks = [
        f"  {mark}  {trace.label}: {words} at {where.sum():,} {points} {trace.x[where][0]:.10g}"
        for mark, words, where in kinds
        if where.any()
    ]
    if trace.astray:
        remarks.append(f"  {pen.nan}  {trace.label}: no finite {x_label} at {trace.astray:,} points")
    return remarks


def _nothing(traces: Sequence[_Trace]) -> list[str]:
    """Why there is no plot, by curve."""
    return [
        f"nothing to draw: {trace.label} has "
        + (f"{len(trace.y):,} values, none of them finite" if len(trace.y) else "no points")
        for trace in traces
    ]


def _words(text: str, pen: Pen) -> str:
    """Run-derived text that this terminal can show."""
    return clean(text).encode("ascii", "backslashreplace").decode() if pen is ASCII else clean(text)
