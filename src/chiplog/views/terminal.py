"""Curves in a terminal: a braille canvas with axes, and sparklines. Everything is returned as text.

No point is ever hidden: where several share a column, the line spans the lowest and the highest, and what has
no place on the scale (NaN, infinities, zero on a log scale) is marked on the frame and counted below it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chiplog.core.notes import clean

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Dots = NDArray[np.bool_]

Curve = tuple[str, ArrayLike, ArrayLike]  # label, x, y

SMOOTHED_FROM = 20  # points; fewer are drawn as they are
SMALLEST = (24, 3)  # columns and rows; a smaller plot is drawn at this size


class Pen(NamedTuple):
    """The characters of a plot."""

    corners: str  # top left, top right, bottom left, bottom right
    flat: str
    upright: str
    y_tick: str
    x_tick: str
    nan: str
    above: str  # the scale
    below: str
    line: str  # the first curve, in the legend
    curves: str  # one each, where curves cannot be told apart by colour
    raw: str  # the values under a smoothed line; empty for dots of their own
    cut: str  # where a label was shortened


BRAILLE = Pen("┌┐└┘", "─", "│", "┤", "┬", "×", "▲", "▼", "⠒", "⠒o+#@%", "", "…")
ASCII = Pen("++++", "-", "|", "|", "+", "x", "^", "v", "*", "*o+#@%", ".", "~")
COLOURS = ("36", "33", "35", "32", "34", "31")  # cyan, yellow, magenta, green, blue, red
FAINT, ALARM = "2", "1;31"
DOTS = np.array([[1, 8], [2, 16], [4, 32], [64, 128]])  # the bits of U+2800, by row and column


def line_plot(
    curves: Sequence[Curve],
    *,
    width: int,
    height: int,
    log: bool = False,
    title: str = "",
    x_label: str = "step",
    colour: bool = False,
    ascii: bool = False,
    smooth: float | None = None,
) -> str:
    """Curves over one pair of axes, `width` columns in all and `height` rows inside the frame.

    Without colour the first curve is a braille line and the others have a character each. `smooth`, the share
    of the past (0 to 1), draws a smoothed line over the faint values of every curve of at least 20 points.

        print(line_plot([("train/loss", steps, values)], width=80, height=12))
    """
    if smooth is not None and not 0 <= smooth < 1:
        raise ValueError(f"smooth is at least 0 and below 1, not {smooth!r}")
    pen = ASCII if ascii else BRAILLE
    width, height = max(width, SMALLEST[0]), max(height, SMALLEST[1])
    traces = [_trace(*curve, pen) for curve in curves]
    x_label = _words(x_label, pen)
    head = [_cut(_words(title, pen), width, pen)] if title else []
    remarks = []
    if log and not any((trace.y > 0).any() for trace in traces):
        log = False
        if any(np.isfinite(trace.y).any() for trace in traces):
            remarks.append("no value is above zero: the scale is linear, not logarithmic")
    drawn = np.concatenate([_drawable(trace, log) for trace in traces] or [np.zeros(0)])
    if not len(drawn):
        words = _nothing(traces) or ["nothing to draw: no curves"]
        return "\n".join([*head, *(_cut(line, width, pen) for line in words)])

    y_axis = _axis(drawn, log, most=min(6, max(2, (height + 1) // 2)))
    margin = max(map(len, y_axis.labels)) + 1
    inner = width - margin - 2
    x_axis = _axis(np.concatenate([trace.x for trace in traces]), False, most=max(2, inner // 9), whole=True)

    sheet = _Sheet(inner, height, pen, colour)
    for number, trace in enumerate(traces):
        sheet.draw(trace, number, x_axis, y_axis, smooth)
        sheet.mark(trace, x_axis, y_axis)
    lines = sheet.framed(x_axis, y_axis)
    lines.append(_x_labels(x_axis, inner, margin, x_label))
    legend = _legend(traces, pen, colour, smooth, width) if len(traces) > 1 or smooth is not None else []
    remarks += [remark for trace in traces for remark in _remarks(trace, log, pen, x_label)]
    return "\n".join([*head, *lines, *legend, *(_cut(remark, width, pen) for remark in remarks)])


def sparkline(values: ArrayLike, width: int, *, ascii: bool = False) -> str:
    """A series as one line of at most `width` characters; a column shows the most unusual of its values."""
    series = np.asarray(values, dtype=np.float64).reshape(-1)
    steps, bad = ("_.-=+*#@", "x") if ascii else ("▁▂▃▄▅▆▇█", "×")
    width = max(1, width)
    finite = series[np.isfinite(series)]
    if not len(finite):
        return bad * min(width, len(series))
    low, high, middle = finite.min(), finite.max(), float(np.median(finite))
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


def _smooth(values: Floats, weight: float) -> Floats:
    """An exponential mean of the past, not pulled to zero at its start; passes over what is not finite."""
    out = np.full(len(values), np.nan)
    total = share = 0.0
    for at, value in enumerate(values.tolist()):
        if math.isfinite(value):
            total = weight * total + (1 - weight) * value
            share = weight * share + (1 - weight)
            out[at] = total / share
    return out


# -- axes ----------------------------------------------------------------------------------------------------


class _Axis(NamedTuple):
    low: float
    high: float
    log: bool
    ticks: list[float]
    labels: list[str]

    def places(self, values: Floats, cells: int) -> Floats:
        """The cell of each value, counted from the low end; NaN where the scale has none."""
        known = np.where(np.isfinite(values), values, np.nan)
        if self.log:
            known = np.log10(np.where(known > 0, known, np.nan))
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        # Halves: the distance of two doubles may be more than a double holds.
        share = (known / 2 - low / 2) / (high / 2 - low / 2)
        return np.clip(np.rint(share * (cells - 1)), 0, cells - 1)


def _axis(values: Floats, log: bool, *, most: int, whole: bool = False) -> _Axis:
    """The axis that holds all values, with up to `most` ticks at tidy places.

    With `whole` there are no ticks between whole numbers when the values have none either.
    """
    low, high = float(values.min()), float(values.max())
    if log:
        if high / low < 1 + 1e-9:
            low, high = low / 1.5, max(high, min(high, 1e308) * 1.5)  # at most what a double holds
        ticks = _log_ticks(low, high, most) or [low, high]
        return _Axis(low, high, True, ticks, [f"{tick:.4g}" for tick in ticks])
    low, high = max(min(low, 1e300), -1e300), max(min(high, 1e300), -1e300)
    whole = whole and max(-low, high) < 2**50 and bool((values == np.rint(values)).all())
    if high - low <= max(1e-12 * max(abs(low), abs(high)), 1e-300):  # all the same
        room = 1.0 if whole else abs(low) * 0.1 or 1.0
        low, high = low - room, high + room
    step = max(_tidy_step(low, high, most), 1.0 if whole else 0.0)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = [number * step for number in range(first, last + 1)] or [low]
    return _Axis(low, high, False, ticks, _labels(ticks, step))


def _tidy_step(low: float, high: float, most: int) -> float:
    """The distance of ticks: one, two or five of something where that gives enough of them."""
    least = max(2, most - 2 if most > 4 else most - 1)
    ten = math.floor(math.log10(high - low))
    found = (0, 10.0**ten)
    for tidy in ((1, 2, 5), (2.5,), (4,), (3,), (1.5,)):
        for mantissa in tidy:
            for power in (ten - 2, ten - 1, ten):
                step = float(f"{mantissa}e{power}")
                count = math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1
                if found[0] < count <= most:
                    found = (count, step)
        if found[0] >= least:
            break
    return found[1]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten where there are enough, else 1, 2, 5 of each, else the ticks of a linear scale."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    apart = max(1, math.ceil((last - first) / most))
    for powers, digits in ((range(first, last + 1, apart), (1,)), (range(first, last + 1), (1, 2, 5))):
        ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if max(2, most - 3) <= len(ticks) <= most:
            return ticks
    step = _tidy_step(low, high, most)
    ticks = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [tick for tick in ticks if tick > 0]


def _labels(ticks: Sequence[float], step: float) -> list[str]:
    """Ticks as text, all with the digits that tell them apart."""
    largest = max((abs(tick) for tick in ticks), default=0.0)
    unit, sign = 1.0, ""
    for candidate, name in ((1e4, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")):
        if candidate <= largest < 1e15:
            unit, sign = (1e3 if name == "k" else candidate), name
    if not sign and (largest >= 1e4 or 0 < largest < 1e-3):
        digits = max(0, math.floor(math.log10(largest)) - _last_digit(step))
        return [f"{tick:.{digits}e}" if tick else "0" for tick in ticks]
    digits = max(0, -_last_digit(step / unit))
    return [f"{tick / unit:.{digits}f}{sign}" if tick else "0" for tick in ticks]


def _last_digit(step: float) -> int:
    """The power of ten of a tidy step's last digit: -1 for 0.2, -2 for 0.25."""
    mantissa, power = f"{step:.1e}".split("e")
    return int(power) - (not mantissa.endswith("0"))


def _x_labels(axis: _Axis, inner: int, margin: int, name: str) -> str:
    """The line below the frame: a label under each tick that has room, and what they count at the end."""
    line = [" "] * (margin + inner + 2)
    name = name[: len(line) // 3]
    end = len(line) - len(name) - (1 if name else 0)
    free = 0
    for tick, label in zip(axis.places(np.array(axis.ticks), inner * 2), axis.labels, strict=True):
        at = max(0, margin + 1 + int(tick) // 2 - len(label) // 2)
        if at >= free and at + len(label) <= end:
            line[at : at + len(label)] = label
            free = at + len(label) + 1
    line[len(line) - len(name) :] = name
    return "".join(line).rstrip()


# -- drawing -------------------------------------------------------------------------------------------------


class _Sheet:
    """The cells inside a frame, each a character and a style, and the marks on the frame."""

    def __init__(self, width: int, height: int, pen: Pen, colour: bool) -> None:
        self._width, self._height, self._pen, self._colour = width, height, pen, colour
        self._bits = np.zeros((height, width), dtype=np.int64)
        self._chars = np.full((height, width), "", dtype="U1")
        self._styles = np.full((height, width), "", dtype="U8")
        self._above: dict[int, str] = {}
        self._below: dict[int, str] = {}

    def draw(self, trace: _Trace, number: int, x: _Axis, y: _Axis, smooth: float | None) -> None:
        style = COLOURS[number % len(COLOURS)]
        if smooth is not None and len(trace.y) >= SMOOTHED_FROM:
            # Where no colour sets it apart it is an outline, so that the smoothed line can be seen within.
            self._draw_line(trace, x, y, f"{FAINT};{style}", glyph=self._pen.raw, outline=not self._colour)
            trace = trace._replace(y=_smooth(trace.y, smooth))
        self._draw_line(trace, x, y, style, glyph=self._glyph(number))

    def mark(self, trace: _Trace, x: _Axis, y: _Axis) -> None:
        """Put what has no place on the scale on the frame."""
        columns = x.places(trace.x, self._width * 2).astype(np.int64) // 2
        for mark, row, where in (
            (self._pen.above, self._above, trace.y == np.inf),
            (self._pen.below, self._below, (trace.y == -np.inf) | ((trace.y <= 0) & y.log)),
            (self._pen.nan, self._below, np.isnan(trace.y)),
        ):
            row.update(dict.fromkeys(columns[where].tolist(), mark))

    def framed(self, x: _Axis, y: _Axis) -> list[str]:
        """The lines of the plot with its frame, the labels of the y axis on the left."""
        pen = self._pen
        rows = (self._height * 4 - 1 - y.places(np.array(y.ticks), self._height * 4).astype(np.int64)) // 4
        labels = dict(zip(rows.tolist(), y.labels, strict=True))
        margin = max(map(len, y.labels)) + 1
        ticks = x.places(np.array(x.ticks), self._width * 2).astype(np.int64) // 2
        below = {**dict.fromkeys(ticks.tolist(), pen.x_tick), **self._below}
        lines = [" " * margin + pen.corners[0] + self._border(self._above) + pen.corners[1]]
        for row in range(self._height):
            label = labels.get(row, "")
            edge = pen.y_tick if row in labels else pen.upright
            lines.append(f"{label:>{margin - 1}} {edge}{self._row(row)}{pen.upright}")
        return [*lines, " " * margin + pen.corners[2] + self._border(below) + pen.corners[3]]

    def _draw_line(self, trace: _Trace, x: _Axis, y: _Axis, style: str, *, glyph: str, outline: bool = False) -> None:
        across, down = (1, 1) if glyph else (2, 4)
        width, height = self._width * across, self._height * down
        columns = x.places(trace.x, width).astype(np.int64)
        dots = _line(columns, height - 1 - y.places(trace.y, height), (height, width), outline=outline)
        if glyph:
            self._chars[dots] = glyph
        else:
            cells = dots.reshape(self._height, 4, self._width, 2)
            bits = (cells * DOTS[None, :, None, :]).sum(axis=(1, 3))
            self._bits |= bits
            dots = bits > 0
            self._chars[dots] = ""
        self._styles[dots] = style

    def _glyph(self, number: int) -> str:
        """The character of a curve; empty where it is drawn in braille."""
        if self._pen is not ASCII and (self._colour or number == 0):
            return ""
        return self._pen.curves[number % len(self._pen.curves)]

    def _row(self, row: int) -> str:
        cells = zip(self._chars[row].tolist(), self._bits[row].tolist(), strict=True)
        chars = [char or (chr(0x2800 + bits) if bits else " ") for char, bits in cells]
        if not self._colour:
            return "".join(chars)
        line, last = "", ""
        for char, style in zip(chars, self._styles[row].tolist(), strict=True):
            if style != last:
                line += ("\x1b[0m" if last else "") + (f"\x1b[{style}m" if style else "")
                last = style
            line += char
        return line + ("\x1b[0m" if last else "")

    def _border(self, marks: dict[int, str]) -> str:
        plain = (self._pen.flat, self._pen.x_tick)
        cells = [marks.get(column, self._pen.flat) for column in range(self._width)]
        return "".join(_paint(cell, ALARM, self._colour and cell not in plain) for cell in cells)


def _line(columns: Places, rows: Floats, shape: tuple[int, int], *, outline: bool) -> Dots:
    """The dots of a line through points that are in order of their columns; NaN in `rows` interrupts it."""
    height, width = shape
    top, bottom = np.full(width, height), np.full(width, -1)

    def reach(at: Places, to: Places) -> None:
        np.minimum.at(top, at, to)
        np.maximum.at(bottom, at, to)

    good = ~np.isnan(rows)
    reach(columns[good], rows[good].astype(np.int64))
    for at in np.flatnonzero(good[:-1] & good[1:] & (columns[1:] > columns[:-1])):
        points = int(max(columns[at + 1] - columns[at], abs(rows[at + 1] - rows[at]))) + 1
        reach(
            np.rint(np.linspace(columns[at], columns[at + 1], points)).astype(np.int64),
            np.rint(np.linspace(rows[at], rows[at + 1], points)).astype(np.int64),
        )
    level = np.arange(height)[:, None]
    dots: Dots = (level == top) | (level == bottom) if outline else (level >= top) & (level <= bottom)
    return dots


# -- words ---------------------------------------------------------------------------------------------------


def _legend(traces: Sequence[_Trace], pen: Pen, colour: bool, smooth: float | None, width: int) -> list[str]:
    lines: list[str] = []
    used = width
    for number, trace in enumerate(traces):
        own = colour and pen is not ASCII
        sign = (pen.line if own else pen.curves[number % len(pen.curves)]) * 2
        label = trace.label
        if smooth is not None and len(trace.y) >= SMOOTHED_FROM:
            raw = "faint" if colour else "dots" if pen is ASCII else "outline"
            label += f" (smoothed {smooth:g}, {raw}: all values)"
        label = _cut(label, width - 5, pen)
        text = f"  {_paint(sign, COLOURS[number % len(COLOURS)], colour)} {label}"
        size = len(sign) + len(label) + 3
        if used + size > width:
            lines.append("")
            used = 0
        lines[-1] += text
        used += size
    return lines


def _remarks(trace: _Trace, log: bool, pen: Pen, x_label: str) -> list[str]:
    """What a curve holds that has no place on the scale, and from where on."""
    found = (
        (pen.nan, "NaN", np.isnan(trace.y)),
        (pen.above, "infinite", trace.y == np.inf),
        (pen.below, "minus infinity", trace.y == -np.inf),
        (pen.below, "not above 0 (log scale)", np.isfinite(trace.y) & (trace.y <= 0) & log),
    )
    points = f"of {len(trace.y):,} points, from {x_label}"
    remarks = [
        f"  {mark}  {trace.label}: {words} at {where.sum():,} {points} {trace.x[where][0]:.10g}"
        for mark, words, where in found
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


def _cut(text: str, width: int, pen: Pen) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + pen.cut


def _paint(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if colour else text
