"""A document as Markdown, for GitHub and every editor; text from a run is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import quote

from chiplog.core.messages import clean
from chiplog.views.report.document import Block, Document, Grid, Pairs, Picture, Quote

_SIGNS = re.compile(r"([\\`*_{}\[\]|#!~]|(?<=[^\W\d_])\.(?=[^\W\d_]))")
# What renderers make links of by themselves, some of them in the text that they have rendered: `://`, `www.`, `a@b`,
# `@name` and `owner/name#1`. A space without width ends each, because a backslash is gone by then.
_LINKS = re.compile(r"(?<=:)(?=/)|(?<=/)(?=/)|(?<=www)(?=\\?\.)|(?<=@)(?=\S)|(?<=#)(?=\d)", re.IGNORECASE)


def to_markdown(document: Document) -> str:
    parts = [f"# {escape(document.title)}", f"_{escape(document.under)}_" if document.under else ""]
    for section in document.shown:
        parts.append(f"## {escape(section.title)}")
        for block in section.shown:
            parts += _block(block)
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """A text on one line, escaped for Markdown and HTML; no address in it becomes a link."""
    escaped = html.escape(_SIGNS.sub(r"\\\1", clean(" ".join(text.splitlines()))), quote=False)
    return _LINKS.sub("&ZeroWidthSpace;", escaped)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Pairs):
        yield "\n".join(f"- **{escape(name)}**: {escape(text)}" for name, text in block.rows if text)
    elif isinstance(block, Grid):
        yield _grid(block)
        if block.more:
            yield f"_{escape(block.more)}_"
    elif isinstance(block, Picture):
        if block.file:
            yield f"![{escape(block.title)}]({_link(block.file)})"
        elif block.text:
            yield f"### {escape(block.title)}"
            yield _fence(block.text)
    elif isinstance(block, Quote):
        if block.title:
            yield f"**{escape(block.title)}**"
        yield _fence(block.text)
    else:
        yield escape(block.text)


def _grid(grid: Grid) -> str:
    rule = ["---:" if name in grid.right else ":---" for name in grid.head]
    rows = [grid.head, rule, *grid.rows]
    return "\n".join(f"| {' | '.join(cell if row is rule else escape(cell) for cell in row)} |" for row in rows)


def _fence(text: str) -> str:
    """A code block whose fence does not occur in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n" + "\n".join(clean(line) for line in text.splitlines()) + f"\n{fence}"


def _link(path: str) -> str:
    """A relative path as the target of a link."""
    return quote(path, safe="/-_.~", errors="replace")
