"""A canvas of characters: dotted lines, bands, and a frame with marks. Everything is text."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chiplog.core.display import paint
from chiplog.store.points.columns import Floats
from chiplog.views.charts.axes import Axis

Places: TypeAlias = NDArray[np.int64]
Dots: TypeAlias = NDArray[np.bool_]


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
    curves: str  # one per curve, if there is no colour
    raw: str  # the values under a smoothed line; empty for dots
    cut: str  # where a label was shortened
    band: str  # between the lowest and the highest
    bars: str  # from nothing to a full cell


PLAIN = Pen("┌┐└┘", "─", "│", "┤", "┬", "×", "▲", "▼", "⠒", "⠒o+#@%*=~&$?", "", "…", "░", " ▁▂▃▄▅▆▇█")
ASCII = Pen("++++", "-", "|", "|", "+", "x", "^", "v", "*", "*o+#@%=~&$?!", ".", "~", ":", " ..::||##")
COLOURS = ("36", "33", "35", "32", "34", "31")  # cyan, yellow, magenta, green, blue, red
FAINT, ALARM = "2", "1;31"


class Marker(NamedTuple):
    """How dots share a cell: how many across and down, and the character for each combination."""

    across: int
    down: int
    chars: str  # by the dots' bits: the first row first, within it from the left


def _sextant(bits: int) -> str:
    """The block character of a 2 × 3 pattern; three patterns are elsewhere in Unicode."""
    elsewhere = {0: " ", 21: "▌", 42: "▐", 63: "█"}
    return elsewhere.get(bits) or chr(0x1FB00 + bits - 1 - (bits > 21) - (bits > 42))


def _braille(bits: int) -> str:
    """The Braille character of a 2 × 4 pattern; Unicode numbers the dots by column, with the last row at the end."""
    order = (0, 3, 1, 4, 2, 5, 6, 7)
    return chr(0x2800 + sum(1 << order[bit] for bit in range(8) if bits >> bit & 1)) if bits else " "


MARKERS = {
    "braille": Marker(2, 4, "".join(map(_braille, range(256)))),
    "fhd": Marker(2, 3, "".join(map(_sextant, range(64)))),
    "hd": Marker(2, 2, " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"),
}


class TextCanvas:
    """The cells inside a frame, each a character and a style, and the marks on the frame."""

    def __init__(self, width: int, height: int, pen: Pen, colour: bool, marker: str = "braille") -> None:
        self._width, self._height, self._pen, self._colour = width, height, pen, colour
        self._marker = MARKERS[marker]
        self._bits = np.zeros((height, width), dtype=np.int64)
        self._chars = np.full((height, width), "", dtype="U1")
        self._styles = np.full((height, width), "", dtype="U8")
        self._above: dict[int, str] = {}
        self._below: dict[int, str] = {}

    def line(
        self, xs: Floats, ys: Floats, x: Axis, y: Axis, style: str, *, glyph: str = "", outline: bool = False
    ) -> None:
        """Draw a line through points sorted by x; in dots, or in a given character."""
        across, down = (1, 1) if glyph else self._marker[:2]
        width, height = self._width * across, self._height * down
        columns = x.places(xs, width).astype(np.int64)
        dots = _line(columns, height - 1 - y.places(ys, height), (height, width), outline=outline)
        if glyph:
            self._chars[dots] = glyph
        else:
            weights = 1 << np.arange(across * down).reshape(down, across)
            cells = dots.reshape(self._height, down, self._width, across)
            bits = (cells * weights[None, :, None, :]).sum(axis=(1, 3))
            self._bits |= bits
            dots = bits > 0
            self._chars[dots] = ""
        self._styles[dots] = style

    def band(self, xs: Floats, low: Floats, high: Floats, x: Axis, y: Axis, style: str) -> None:
        """Fill the area between two lines, below everything drawn later."""
        columns = x.places(xs, self._width).astype(np.int64)
        shape = self._height, self._width
        tops = _line(columns, self._height - 1 - y.places(high, self._height), shape, outline=False)
        bottoms = _line(columns, self._height - 1 - y.places(low, self._height), shape, outline=False)
        filled = (np.cumsum(tops, axis=0) > 0) & (np.cumsum(bottoms[::-1], axis=0)[::-1] > 0)
        self._chars[filled], self._styles[filled] = self._pen.band, style

    def bars(self, heights: Floats, y: Axis, style: str) -> None:
        """Draw a bar in every column."""
        steps = len(self._pen.bars) - 1
        levels = np.nan_to_num(y.places(heights, self._height * steps + 1)).astype(np.int64)
        for row in range(self._height):
            filled = np.clip(levels - (self._height - 1 - row) * steps, 0, steps)
            self._chars[row] = [self._pen.bars[level] for level in filled.tolist()]
            self._styles[row][filled > 0] = style

    def mark(self, xs: Floats, ys: Floats, x: Axis, y: Axis) -> None:
        """Mark values that are off the scale on the frame."""
        columns = x.places(xs, self._width * 2).astype(np.int64) // 2
        for mark, row, where in (
            (self._pen.above, self._above, ys == np.inf),
            (self._pen.below, self._below, (ys == -np.inf) | ((ys <= 0) & y.log)),
            (self._pen.nan, self._below, np.isnan(ys)),
        ):
            row.update(dict.fromkeys(columns[where].tolist(), mark))

    def framed(self, x: Axis, y: Axis) -> list[str]:
        """The lines of the plot with its frame, and the y labels on the left."""
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

    def _row(self, row: int) -> str:
        cells = zip(self._chars[row].tolist(), self._bits[row].tolist(), strict=True)
        chars = [char or self._marker.chars[bits] for char, bits in cells]
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
        return "".join(paint(cell, ALARM, self._colour and cell not in plain) for cell in cells)


def x_labels(axis: Axis, inner: int, margin: int, name: str) -> str:
    """The line below the frame: a label under each tick that has room, and the name of the x axis."""
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


def _line(columns: Places, rows: Floats, shape: tuple[int, int], *, outline: bool) -> Dots:
    """The dots of a line through points sorted by column; NaN in `rows` interrupts it."""
    height, width = shape
    top, bottom = np.full(width, height), np.full(width, -1)

    def reach(at: Places, to: Places) -> None:
        np.minimum.at(top, at, to)
        np.maximum.at(bottom, at, to)

    good = ~np.isnan(rows)
    reach(columns[good], rows[good].astype(np.int64))
    at = np.flatnonzero(good[:-1] & good[1:] & (columns[1:] > columns[:-1]))
    across, along = (columns[at + 1] - columns[at]).astype(np.float64), rows[at + 1] - rows[at]
    steps = np.maximum(across, np.abs(along)).astype(np.int64)  # from each point to the next, one dot at a time
    number = np.arange(int((steps + 1).sum())) - np.repeat(np.cumsum(steps + 1) - steps - 1, steps + 1)
    share = number / np.repeat(steps, steps + 1)
    reach(
        np.rint(np.repeat(columns[at], steps + 1) + share * np.repeat(across, steps + 1)).astype(np.int64),
        np.rint(np.repeat(rows[at], steps + 1) + share * np.repeat(along, steps + 1)).astype(np.int64),
    )
    level = np.arange(height)[:, None]
    dots: Dots = (level == top) | (level == bottom) if outline else (level >= top) & (level <= bottom)
    return dots
