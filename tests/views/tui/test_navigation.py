"""The keys that scroll."""

from __future__ import annotations

from chiplog.views.tui.navigation import rows_moved


def test_a_page_is_as_long_as_the_screen() -> None:
    """Other keys do not scroll."""
    assert (rows_moved("pgdn", 20), rows_moved("pgup", 20), rows_moved("down", 20), rows_moved("x", 20)) == (
        20,
        -20,
        1,
        0,
    )
