"""A document: sections of words, pairs, tables, pictures and quotes; the renderers decide how it looks.

Everything in it is plain text from a run, which renderers escape. Only the SVG of a picture is markup; it is ours, and
escapes its own text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

from chiplog.core.display import brief


class Words(NamedTuple):
    text: str


class Pairs(NamedTuple):
    """Names and values; empty values are left out."""

    rows: Sequence[tuple[str, str]]


class Grid(NamedTuple):
    """A table; the columns named in `right` hold numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Collection[str] = ()
    more: str = ""  # what was left out


class Picture(NamedTuple):
    """One picture in three forms: vector graphics, characters, and a file next to the document, if there is one."""

    title: str
    svg: str
    text: str = ""
    file: str = ""


class Quote(NamedTuple):
    """Preformatted text."""

    text: str
    title: str = ""


Block: TypeAlias = Words | Pairs | Grid | Picture | Quote


class Section(NamedTuple):
    title: str
    blocks: Sequence[Block]

    @property
    def shown(self) -> list[Block]:
        """The blocks that are not empty, without the ends of very long texts."""
        return [_brief(block) for block in self.blocks if not _is_empty(block)]


class Document(NamedTuple):
    title: str
    under: str  # one line below the title
    sections: Sequence[Section]

    @property
    def shown(self) -> list[Section]:
        """The sections that are not empty."""
        return [section for section in self.sections if section.shown]


def _is_empty(block: Block) -> bool:
    if isinstance(block, Pairs):
        return not any(text for _, text in block.rows)
    if isinstance(block, Grid):
        return not block.rows
    if isinstance(block, Picture):
        return not (block.svg or block.text or block.file)
    return not block.text


def _brief(block: Block) -> Block:
    if isinstance(block, Words):
        return Words(brief(block.text))
    if isinstance(block, Pairs):
        return Pairs([(brief(name), brief(text)) for name, text in block.rows])
    if isinstance(block, Grid):
        rows = [[brief(cell) for cell in row] for row in block.rows]
        return Grid([*map(brief, block.head)], rows, [*map(brief, block.right)], brief(block.more))
    if isinstance(block, Quote):
        return Quote("\n".join(map(brief, block.text.splitlines())), brief(block.title))
    return block._replace(title=brief(block.title))
