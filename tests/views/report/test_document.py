"""Documents."""

from __future__ import annotations

from chiplog.views.report.document import Document, Grid, Pairs, Section, Words
from chiplog.views.report.markdown import to_markdown


def test_empty_blocks_are_left_out() -> None:
    document = Document("t", "", [Section("none", [Grid(["a"], []), Pairs([("a", "")]), Words("")])])
    assert document.shown == [] and to_markdown(document) == "# t\n"
