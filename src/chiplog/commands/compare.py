"""Show how runs differ.

The comparison is printed, or written as Markdown or HTML.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from chiplog.commands.shared.open_run import open_run
from chiplog.commands.shared.series_names import match
from chiplog.core.errors import BadSetting
from chiplog.core.files.writing import write_text
from chiplog.core.messages import clean
from chiplog.store.runs import find
from chiplog.views.report.html import to_html
from chiplog.views.report.markdown import to_markdown
from chiplog.views.report.text import to_text

EXAMPLE = "chiplog compare baseline latest -o comparison.html"


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the runs; the first is the baseline")
    parser.add_argument(
        "--metric", action="append", default=[], metavar="NAME", help="only this metric, or a pattern; repeatable"
    )
    parser.add_argument("-o", dest="output", metavar="PATH", help="write to a .md or .html file")


def run(args: Namespace) -> int:
    from chiplog.views.report.comparison import compare  # needs numpy, which the help does without

    renderers = {".md": to_markdown, ".html": to_html}
    paths = find.select(args.runs, args.root)
    twice = [path for at, path in enumerate(paths) if path.resolve() in {other.resolve() for other in paths[:at]}]
    if twice:
        raise BadSetting(
            f"{' and '.join(args.runs)} name the run {twice[0].parent.name}/{twice[0].name} twice; name two runs"
        )
    runs = [open_run(path, args) for path in paths]
    document = compare(runs, match(args.metric, runs[0].names()) if args.metric else ())
    if args.output is None:
        print(to_text(document, width=args.screen.room, colour=args.screen.colour))
        return 0
    path = Path(args.output)
    if path.suffix not in renderers:
        raise BadSetting(f"cannot write a comparison to {args.output!r}: use a name ending in {' or '.join(renderers)}")
    write_text(path, renderers[path.suffix](document))
    print(clean(str(path)))
    return 0
