"""A histogram as one line of characters."""

from __future__ import annotations

from chiplog.views.charts.text_bars import bar_line


def test_bars_are_as_high_as_their_counts() -> None:
    """An empty bin is blank, and neighbours are added up if there is no room for all."""
    assert bar_line([0, 1, 4, 8], 10) == " ▂▅█" and bar_line([0, 1, 4, 8], 10, ascii=True) == " :+@"
    assert bar_line([1, 1, 4, 4], 2) == "▃█"
    assert bar_line([], 5) == bar_line([0, 0], 5) == ""
