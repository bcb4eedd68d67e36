"""The style of text plots: their size, and what they are drawn with."""

from __future__ import annotations

from typing import NamedTuple

KINDS = ("line", "hist")


class TextStyle(NamedTuple):
    """The style of text plots. `kind` is the first plot of a metric without statistics."""

    width: int = 100
    height: int = 16
    colour: bool = False
    ascii: bool = False
    marker: str = "braille"
    kind: str = "line"
    text_width: int | None = None  # at which titles and labels are cut, if not at `width`
