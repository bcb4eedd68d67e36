"""Documents as text."""

from __future__ import annotations

from chiplog.views.report.document import Document, Grid, Pairs, Picture, Quote, Section, Words
from chiplog.views.report.text import to_text


def test_every_block_is_indented_below_its_title() -> None:
    """Pairs, tables, quotes and words; a picture is its characters."""
    blocks = [
        Pairs([("a", "1"), ("b", "")]),
        Grid(["x"], [["2"]], more="more"),
        Quote("q"),
        Words("w"),
        Picture("p", "", "#"),
    ]
    text = to_text(Document("Title", "under", [Section("Part", blocks)]), width=80)
    assert text == "Title\nunder\n\nPart\n  a  1\n\n  x\n  2\n  more\n\n  q\n\n  w\n\n#"


def test_control_characters_do_not_reach_the_terminal() -> None:
    """Neither from titles nor from quotes."""
    text = to_text(Document("\x1b[31mt", "", [Section("s", [Quote("\x1b[2J")])]), width=80)
    assert "\x1b" not in text
