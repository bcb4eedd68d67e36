"""Documents as Markdown."""

from __future__ import annotations

from chiplog.views.report.document import Document, Picture, Quote, Section
from chiplog.views.report.markdown import escape, to_markdown


def test_a_fence_cannot_be_left() -> None:
    """Text with backticks is quoted by more of them."""
    text = to_markdown(Document("t", "", [Section("s", [Quote("```\n# out\n````")])]))
    assert "`````text" in text


def test_signs_of_markdown_are_escaped() -> None:
    """A name stays one line of plain text."""
    assert escape("a_b*c\n<i>") == "a\\_b\\*c &lt;i&gt;"


def test_a_picture_is_a_link_or_characters() -> None:
    """A file is linked with its path quoted; without a file the plot is in a code block."""
    document = Document("t", "", [Section("s", [Picture("a", "", "..", "p/a b.png"), Picture("b", "", "..")])])
    text = to_markdown(document)
    assert "![a](p/a%20b.png)" in text and "### b\n\n```text\n..\n```" in text
