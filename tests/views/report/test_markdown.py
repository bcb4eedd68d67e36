"""Documents as Markdown."""

from __future__ import annotations

import html
import re

import pytest

from chiplog.views.report.document import Document, Picture, Quote, Section
from chiplog.views.report.markdown import escape, to_markdown


def test_a_fence_cannot_be_left() -> None:
    """Text with backticks is quoted by more of them."""
    text = to_markdown(Document("t", "", [Section("s", [Quote("```\n# out\n````")])]))
    assert "`````text" in text


def test_signs_of_markdown_are_escaped() -> None:
    """A name stays one line of plain text."""
    assert escape("a_b*c\n<i>") == "a\\_b\\*c &lt;i&gt;"


@pytest.mark.parametrize(
    "text",
    [
        "http://evil.example/", "HTTPS://evil.example", "ftp://evil.example", "file:///x", "//evil.example",
        "WWW.evil.example", "www.evil.example/x", "me@evil.example", "mailto:me@evil.example", "@evil", "(@evil/team)",
        "evil/x#1", "evil/x@0123456", "evil.com",
    ],
)  # fmt: skip
def test_no_address_becomes_a_link(text: str) -> None:
    """Neither where Markdown is parsed nor in what was rendered, and people still see the same text."""
    escaped = escape(f"see {text} there")
    rendered = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", html.unescape(escaped))
    for source in (escaped, *([rendered] if text != "evil.com" else [])):
        assert not re.search(r"://|//|www\.|@\w|#\d|[a-z]\.com", source, re.IGNORECASE)
    assert rendered.replace("\u200b", "") == f"see {text} there"


def test_numbers_and_names_are_as_they_were() -> None:
    """They can be copied, even those with dots, colons and slashes."""
    for text in ("0.25", "1.5e-3", "train/loss", "12:30:00", "a: b", "v1.2.3", "50 %", "x = 1", "a/b/c.1"):
        assert escape(text) == text
    assert "\u200b" not in html.unescape(escape("chiplog.toml and a.b.c: d/e"))


def test_a_picture_is_a_link_or_characters() -> None:
    """A file is linked with its path quoted; without a file the plot is in a code block."""
    document = Document("t", "", [Section("s", [Picture("a", "", "..", "p/a b.png"), Picture("b", "", "..")])])
    text = to_markdown(document)
    assert "![a](p/a%20b.png)" in text and "### b\n\n```text\n..\n```" in text
