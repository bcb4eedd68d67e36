"""Documents as HTML."""

from __future__ import annotations

from chiplog.views.report.document import Document, Grid, Picture, Section, Words
from chiplog.views.report.html import to_html


def test_consecutive_pictures_share_a_row_of_cards() -> None:
    """Pictures side by side; a paragraph starts a new row."""
    picture = Picture("p", "<svg></svg>")
    text = to_html(Document("t", "", [Section("s", [picture, picture, Words("then"), picture])]))
    assert text.count('class="cards"') == 2 and text.count("<figure>") == 3


def test_a_long_document_has_links_to_its_sections() -> None:
    """From three sections on, each with an anchor."""
    sections = [Section(name, [Words("x")]) for name in ("One", "Two", "Last Words")]
    text = to_html(Document("t", "", sections))
    assert '<a href="#last_words">Last Words</a>' in text and '<h2 id="last_words">' in text
    assert "<nav>" not in to_html(Document("t", "", sections[:2]))


def test_what_a_table_leaves_out_is_below_it() -> None:
    """A line after the table, escaped like everything else."""
    text = to_html(Document("t", "", [Section("s", [Grid(["a"], [["1"]], more="2 < 3 more")])]))
    assert '</table></div><p class="more">2 &lt; 3 more</p>' in text
