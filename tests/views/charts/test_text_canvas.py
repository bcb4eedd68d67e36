"""The canvas of characters."""

from __future__ import annotations

import numpy as np
import pytest

from chiplog.views.charts.axes import axis_of
from chiplog.views.charts.text_canvas import MARKERS, PLAIN, TextCanvas


@pytest.mark.parametrize("name", MARKERS)
def test_every_pattern_of_dots_has_a_character(name: str) -> None:
    """All of them different."""
    marker = MARKERS[name]
    assert len(marker.chars) == len(set(marker.chars)) == 2 ** (marker.across * marker.down)


def test_a_line_crosses_the_canvas() -> None:
    """From the lower left to the upper right corner, inside the frame."""
    ends = np.array([0.0, 1.0])
    axis = axis_of(ends, False, most=3)
    canvas = TextCanvas(8, 4, PLAIN, colour=False)
    canvas.line(ends, ends, axis, axis, "")
    rows = canvas.framed(axis, axis)
    assert len(rows) == 6 and "⡠" in rows[-2] and rows[1].rstrip("│").endswith("⠊")
