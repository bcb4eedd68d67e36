"""Show everything about a run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from chiplog.commands.shared.arguments import add_run
from chiplog.commands.shared.open_run import open_run
from chiplog.commands.show.data import as_data
from chiplog.commands.show.page import page
from chiplog.store.runs import find
from chiplog.views.strict_json import pretty

EXAMPLE = "chiplog show latest"


def arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--all", action="store_true", help="show all series, settings and files, however many")
    parser.add_argument("--ranks", action="store_true", help="show one series by rank, as a table and a heat map")
    parser.add_argument("--of", metavar="NAME", help="the series for --ranks (default: the step time, or a loss)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    stored = open_run(find.find(args.run, args.root), args)
    if args.ranks:
        from chiplog.commands.show.ranks import show_ranks  # needs numpy; the page does without

        print(show_ranks(stored, args.of, args.screen, every=args.all))
    elif args.json:
        print(pretty(as_data(stored)))
    else:
        print(page(stored, args.screen, every=args.all))
    return 0
