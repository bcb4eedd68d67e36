"""A document as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from chiplog.core.display import paint, wrap
from chiplog.core.messages import clean
from chiplog.views.report.document import Block, Document, Grid, Pairs, Picture, Quote
from chiplog.views.table import pairs, table


def to_text(document: Document, *, width: int | None, colour: bool = False) -> str:
    parts = [paint(clean(document.title), "1", colour) + (f"\n{clean(document.under)}" if document.under else "")]
    for section in document.shown:
        body = "\n\n".join(part for block in section.shown for part in _block(block, width, colour))
        parts.append(f"{paint(clean(section.title), '1', colour)}\n{body}")
    return "\n\n".join(parts)


def _block(block: Block, width: int | None, colour: bool) -> Iterator[str]:
    if isinstance(block, Pairs):
        yield pairs(block.rows, width=width, indent=2)
    elif isinstance(block, Grid):
        head, right = [clean(name) for name in block.head], [clean(name) for name in block.right]
        drawn = table(head, block.rows, width=width, right=right, colour=colour, indent=2)
        yield drawn + (f"\n  {clean(block.more)}" if block.more else "")
    elif isinstance(block, Picture):
        yield block.text
    elif isinstance(block, Quote):
        yield "\n".join(f"  {clean(line)}" for line in block.text.splitlines())
    else:
        yield "\n".join(f"  {line}" for line in wrap(clean(block.text), None if width is None else width - 2))
