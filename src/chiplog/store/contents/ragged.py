"""How large an array may be, compared with the values that are stored for it."""

from __future__ import annotations

ALWAYS = 1 << 20  # cells: an array that is not larger may be empty
TIMES = 16  # as many cells as values: of the usual matrices, nearly all rows have the same length


def is_ragged(cells: int, values: int, *, always: int = ALWAYS) -> bool:
    """Whether so many cells for so few values are not worth their memory."""
    return cells > most_cells(values, always=always)


def most_cells(values: int, *, always: int = ALWAYS) -> int:
    """The cells of the largest array that so many values are worth."""
    return always + TIMES * values
