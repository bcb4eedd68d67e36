"""Aligned text tables. Cells are text from a run; control characters are removed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from chiplog.core.display import brief, columns, cut, pad, paint, wrap
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
    cells = [[name, *(row[at] for row in rows)] for at, name in enumerate(head)]  # there may be thousands of rows
    texts = [_texts(column) for column in cells]
    kept = [at for at in range(len(head)) if not rows or any(texts[at][1:])]
    widths = [max(map(columns, texts[at])) for at in kept]
    if width is not None:
        room = width - indent - GAP * (len(widths) - 1)
        names = [head[at] for at in kept]
        widths = _fit(widths, room, [at for at, name in enumerate(names) if name not in right and name not in whole])
        widths = _fit(widths, room, [at for at, name in enumerate(names) if name not in whole])
    aligned = [_aligned(texts[at], width, head[at] in right) for at, width in zip(kept, widths, strict=True)]
    if colour:
        aligned = [_painted(column, cells[at]) for at, column in zip(kept, aligned, strict=True)]
    return "\n".join(" " * indent + (" " * GAP).join(line).rstrip() for line in zip(*aligned, strict=True))


def pairs(rows: Sequence[tuple[str, str]], *, width: int | None = None, indent: int = 0) -> str:
    """Names and values; long values are wrapped, lines kept, and empty values left out."""
    shown = [(clean(brief(name)), [clean(line) for line in brief(text).splitlines()]) for name, text in rows if text]
    edge = max((columns(name) for name, _ in shown), default=0)
    edge = min(edge, max(12, width // 2)) if width is not None else edge
    lines = []
    for name, texts in shown:
        room = None if width is None else max(8, width - indent - edge - GAP)
        first, *more = [piece for text in texts for piece in wrap(text, room)] or [""]
        lines.append(f"{' ' * indent}{pad(cut(name, edge), edge)}{' ' * GAP}{first}")
        lines += [" " * (indent + edge + GAP) + line for line in more]
    return "\n".join(lines)


def _texts(cells: Sequence[str | Cell]) -> list[str]:
    return [clean(brief(cell if isinstance(cell, str) else cell.text)) for cell in cells]


def _fit(widths: list[int], room: int, places: Sequence[int]) -> list[int]:
    """The widths, with the widest of these places reduced until all fit."""
    widths = list(widths)
    while places and sum(widths) > room and max(widths[at] for at in places) > NARROWEST:
        widths[max(places, key=lambda at: widths[at])] -= 1
    return widths


def _aligned(texts: Sequence[str], width: int, right: bool) -> list[str]:
    """The texts of a column, cut or filled to a width."""
    aligned = []
    for text in texts:
        if not text.isascii() or len(text) > width:
            shown = cut(text, width)
            space = " " * (width - columns(shown))
            aligned.append(space + shown if right else shown + space)
        else:
            aligned.append(text.rjust(width) if right else text.ljust(width))
    return aligned


def _painted(texts: Sequence[str], cells: Sequence[str | Cell]) -> list[str]:
    """A column in the styles of its cells; the name above it is dim, and the space next to a text is plain."""
    painted = []
    for text, cell in zip(texts, [Cell("", "2"), *cells[1:]], strict=True):
        style = "" if isinstance(cell, str) else cell.style
        bare = text.strip(" ")
        painted.append(text.replace(bare, paint(bare, style), 1) if style and bare else text)
    return painted
