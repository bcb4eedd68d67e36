"""A document as one self-contained HTML page: no network, no script, all text escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from chiplog.core.messages import clean
from chiplog.views.metric_families import filename
from chiplog.views.report.document import Block, Document, Grid, Pairs, Picture, Quote, Section

# Nothing may be loaded and nothing may run, whatever the names and texts of a run contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5d6570; --line: #dfe3e8; --back: #fff; --card: #f7f8fa;
  --a: #0072b2; --b: #d55e00; --c: #009e73; --d: #cc79a7; --e: #56b4e9; --f: #e69f00; --alarm: #b00020; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6ea; --soft: #9aa3ad; --line: #343a42; --back: #16181c;
  --card: #1e2126; --a: #56b4e9; --b: #ff8a4c; --c: #2fc79b; --d: #e39cc3; --e: #0090d8; --f: #f0b429;
  --alarm: #ff6b7a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 2rem 1.2rem 4rem; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin: 2.4rem 0 .8rem; }
.under { color: var(--soft); margin: .2rem 0 1rem; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; border-block: 1px solid var(--line); padding: .5rem 0; }
nav a { color: var(--a); text-decoration: none; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; min-width: 40%; }
th { text-align: left; color: var(--soft); font-weight: 600; }
th, td { padding: .28rem .6rem .28rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: anywhere; min-width: 3.6rem; } td:first-child:not(.n) { min-width: 10.5rem; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; margin: 0; font-size: .92rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem;
  overflow-x: auto;  font-size: .82rem; white-space: pre-wrap; }
.more { color: var(--soft); font-size: .85rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(330px, 1fr)); gap: .9rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: .6rem .7rem .3rem; }
figcaption { font-weight: 600; font-size: .9rem; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; display: block; }
@media print { body { max-width: none; } figure { break-inside: avoid; } }
"""


def to_html(document: Document) -> str:
    shown = [(filename(section.title.lower()), section) for section in document.shown]
    links = "".join(f'<a href="#{anchor}">{_text(section.title)}</a>' for anchor, section in shown)
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(document.title)}</title><style>{STYLE}</style></head><body>",
            f'<h1>{_text(document.title)}</h1><p class="under">{_text(document.under)}</p>',
            f"<nav>{links}</nav>" if len(shown) > 2 else "",
            *(_section(anchor, section) for anchor, section in shown),
            "</body></html>\n",
        )
    )


def _section(anchor: str, section: Section) -> str:
    return f'<h2 id="{anchor}">{_text(section.title)}</h2>' + "".join(_blocks(section.shown))


def _blocks(blocks: list[Block]) -> Iterator[str]:
    """The blocks; consecutive pictures are cards side by side."""
    cards: list[str] = []
    for block in blocks:
        if isinstance(block, Picture):
            cards.append(_picture(block))
            continue
        if cards:
            yield f'<div class="cards">{"".join(cards)}</div>'
            cards = []
        yield _block(block)
    if cards:
        yield f'<div class="cards">{"".join(cards)}</div>'


def _block(block: Block) -> str:
    if isinstance(block, Pairs):
        rows = "".join(f"<dt>{_text(name)}</dt><dd>{_text(text)}</dd>" for name, text in block.rows if text)
        return f"<dl>{rows}</dl>"
    if isinstance(block, Grid):
        return _grid(block)
    if isinstance(block, Quote):
        return (f"<p>{_text(block.title)}</p>" if block.title else "") + f"<pre>{_lines(block.text)}</pre>"
    if isinstance(block, Picture):
        return _picture(block)
    return f"<p>{_text(block.text)}</p>"


def _grid(grid: Grid) -> str:
    def cells(tag: str, row: object) -> str:
        return "".join(
            f"<{tag}{' class=n' if name in grid.right else ''}>{_text(cell)}</{tag}>"
            for name, cell in zip(grid.head, row, strict=True)  # type: ignore[call-overload]
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in grid.rows)
    more = f'<p class="more">{_text(grid.more)}</p>' if grid.more else ""
    table = f"<table><thead><tr>{cells('th', grid.head)}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>{more}'


def _picture(picture: Picture) -> str:
    shown = picture.svg or f"<pre>{_lines(picture.text)}</pre>"
    return f"<figure><figcaption>{_text(picture.title)}</figcaption>{shown}</figure>"


def _text(text: str) -> str:
    return escape(clean(text))


def _lines(text: str) -> str:
    return "\n".join(_text(line) for line in text.splitlines())
