"""`chiplog compare`: runs beside each other, on the terminal or as Markdown or HTML."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from chiplog.commands.plot import match
from chiplog.core.errors import BadSetting
from chiplog.store import index
from chiplog.store.reader import Stored
from chiplog.views.comparison import compare
from chiplog.views.finalize import write_text
from chiplog.views.markdown import to_markdown
from chiplog.views.page import to_html
from chiplog.views.printed import to_text

RENDERERS = {".md": to_markdown, ".html": to_html}


def run(args: Namespace) -> int:
    runs = [Stored(index.find(which, args.root)) for which in args.runs]
    document = compare(runs, match(args.metric, runs[0].names()) if args.metric else ())
    if args.output is None:
        print(to_text(document, width=args.screen.width, colour=args.screen.colour))
        return 0
    path = Path(args.output)
    if path.suffix not in RENDERERS:
        raise BadSetting(f"{args.output!r}: a comparison is written as {' or '.join(RENDERERS)}")
    write_text(path, RENDERERS[path.suffix](document))
    print(path)
    return 0
