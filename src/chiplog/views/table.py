"""Aligned text tables. Cells are text from a run; control characters are removed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from chiplog.core.display import columns, cut, pad, paint, wrap
from chiplog.core.messages import clean

GAP = 2  # columns between columns
NARROWEST = 8  # columns: the minimum width of a cell if the table is too wide


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
    whole: Collection[str] = (),
    colour: bool = False,
    indent: int = 0,
) -> str:
    """Rows below a header, with the columns in `right` right-aligned; empty columns are left out.

    If the table is wider than `width`, the widest columns are cut, but not below 8: texts first, numbers only if that
    does not suffice, and the columns in `whole` never.

        print(table(["run", "loss"], [["a", "2.31"], ["b", "1.97"]], right=["loss"]))
    """
    cells = [[_cell(cell) for cell in row] for row in rows]
    kept = [at for at in range(len(head)) if not cells or any(row[at].text for row in cells)]
    lines = [[Cell(head[at], "2") for at in kept], *([row[at] for at in kept] for row in cells)]
    widths = [max(columns(line[at].text) for line in lines) for at in range(len(kept))]
    if width is not None:
        room = width - indent - GAP * (len(widths) - 1)
        names = [head[at] for at in kept]
        widths = _fit(widths, room, [at for at, name in enumerate(names) if name not in right and name not in whole])
        widths = _fit(widths, room, [at for at, name in enumerate(names) if name not in whole])
    sides = [head[at] in right for at in kept]
    return "\n".join(" " * indent + _line(line, widths, sides, colour) for line in lines)


def pairs(rows: Sequence[tuple[str, str]], *, width: int | None = None, indent: int = 0) -> str:
    """Names and values; long values are wrapped, empty ones left out."""
    shown = [(clean(name), clean(text)) for name, text in rows if text]
    edge = max((columns(name) for name, _ in shown), default=0)
    edge = min(edge, 40) if width is not None else edge
    lines = []
    for name, text in shown:
        room = None if width is None else max(20, width - indent - edge - GAP)
        first, *more = wrap(text, room)
        lines.append(f"{' ' * indent}{pad(cut(name, edge), edge)}{' ' * GAP}{first}")
        lines += [" " * (indent + edge + GAP) + line for line in more]
    return "\n".join(lines)


def _cell(cell: str | Cell) -> Cell:
    return Cell(clean(cell)) if isinstance(cell, str) else Cell(clean(cell.text), cell.style)


def _fit(widths: list[int], room: int, places: Sequence[int]) -> list[int]:
    """The widths, with the widest of these places reduced until all fit."""
    widths = list(widths)
    while places and sum(widths) > room and max(widths[at] for at in places) > NARROWEST:
        widths[max(places, key=lambda at: widths[at])] -= 1
    return widths


def _line(line: Sequence[Cell], widths: Sequence[int], right: Sequence[bool], colour: bool) -> str:
    parts = []
    for cell, width, side in zip(line, widths, right, strict=True):
        text = cut(cell.text, width)
        space = " " * (width - columns(text))
        painted = paint(text, cell.style, colour)
        parts.append(space + painted if side else painted + space)
    return (" " * GAP).join(parts).rstrip()
