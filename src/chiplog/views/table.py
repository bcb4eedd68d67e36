"""Aligned text tables. Cells are run-derived text and come out without control characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from chiplog.core.notes import clean

GAP = 2  # columns between columns
NARROWEST = 8  # columns to which a cell may be cut where the table is too wide


class Cell(NamedTuple):
    """Text with a style: the numbers of an SGR sequence, such as "31" for red."""

    text: str
    style: str = ""


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    *,
    width: int | None = None,
    right: Collection[str] = (),
    colour: bool = False,
    indent: int = 0,
) -> str:
    """Rows below a head, the columns in `right` aligned to the right; a column that is empty everywhere is left out.

    Where the whole is wider than `width`, the widest columns are cut, never below 8.

        print(table(["run", "loss"], [["a", "2.31"], ["b", "1.97"]], right=["loss"]))
    """
    cells = [[_cell(cell) for cell in row] for row in rows]
    kept = [at for at in range(len(head)) if not cells or any(row[at].text for row in cells)]
    lines = [[Cell(head[at], "2") for at in kept], *([row[at] for at in kept] for row in cells)]
    widths = [max(columns(line[at].text) for line in lines) for at in range(len(kept))]
    if width is not None:
        widths = _fit(widths, width - indent - GAP * (len(widths) - 1))
    sides = [head[at] in right for at in kept]
    return "\n".join(" " * indent + _line(line, widths, sides, colour) for line in lines)


def pairs(rows: Sequence[tuple[str, str]], *, width: int | None = None, indent: int = 0) -> str:
    """Names and what they stand for; long ones go on below, and one that is empty is left out."""
    shown = [(clean(name), clean(text)) for name, text in rows if text]
    edge = max((columns(name) for name, _ in shown), default=0)
    edge = min(edge, 40)
    lines = []
    for name, text in shown:
        room = None if width is None else max(20, width - indent - edge - GAP)
        first, *more = wrap(text, room)
        lines.append(f"{' ' * indent}{_pad(cut(name, edge), edge)}{' ' * GAP}{first}")
        lines += [" " * (indent + edge + GAP) + line for line in more]
    return "\n".join(lines)


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def cut(text: str, width: int) -> str:
    """A text in at most `width` columns, its end shortened where it is longer."""
    if columns(text) <= width:
        return text
    used, kept = 0, ""
    for char in text:
        used += _columns(char)
        if used > width - 1:
            break
        kept += char
    return kept + "…"


def wrap(text: str, room: int | None) -> list[str]:
    """A text in lines of at most `room` columns, broken at spaces where there are any."""
    lines = []
    while room is not None and columns(text) > room:
        piece = cut(text, room + 1)[:-1]
        at = piece.rfind(" ") if " " in piece.strip() else len(piece)
        lines.append(text[:at])
        text = text[at:].lstrip()
    return [*lines, text]


def paint(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if colour and style and text else text


def _cell(cell: str | Cell) -> Cell:
    return Cell(clean(cell)) if isinstance(cell, str) else Cell(clean(cell.text), cell.style)


def _fit(widths: list[int], room: int) -> list[int]:
    """The widths, with the widest made narrower until all fit."""
    widths = list(widths)
    while sum(widths) > room and max(widths, default=0) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _line(line: Sequence[Cell], widths: Sequence[int], right: Sequence[bool], colour: bool) -> str:
    parts = []
    for cell, width, side in zip(line, widths, right, strict=True):
        text = cut(cell.text, width)
        space = " " * (width - columns(text))
        painted = paint(text, cell.style, colour)
        parts.append(space + painted if side else painted + space)
    return (" " * GAP).join(parts).rstrip()


def _pad(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


@lru_cache(4096)
def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
