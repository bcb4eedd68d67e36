"""`chiplog compare`: runs side by side, in the terminal or as Markdown or HTML."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from chiplog.commands.plot import match
from chiplog.core.errors import BadSetting
from chiplog.store.reader import Stored
from chiplog.store.runs import find
from chiplog.views.report.comparison import compare
from chiplog.views.report.html import to_html
from chiplog.views.report.markdown import to_markdown
from chiplog.views.report.text import to_text
from chiplog.views.report.write import write_text

RENDERERS = {".md": to_markdown, ".html": to_html}


def run(args: Namespace) -> int:
    runs = [Stored(find.find(which, args.root)) for which in args.runs]
    document = compare(runs, match(args.metric, runs[0].names()) if args.metric else ())
    if args.output is None:
        print(to_text(document, width=args.screen.width, colour=args.screen.colour))
        return 0
    path = Path(args.output)
    if path.suffix not in RENDERERS:
        raise BadSetting(f"cannot write a comparison to {args.output!r}: use a name ending in {' or '.join(RENDERERS)}")
    write_text(path, RENDERERS[path.suffix](document))
    print(path)
    return 0
