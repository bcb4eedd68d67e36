"""Follow a run while it is written."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from chiplog.commands.shared.arguments import add_run, whole_number
from chiplog.commands.shared.open_run import open_run
from chiplog.commands.tail import printed_lines, rows
from chiplog.commands.tail.output import Output
from chiplog.core.messages import clean
from chiplog.store.runs import find

EXAMPLE = "chiplog tail latest -n 5"


def arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "-n", type=whole_number, default=10, metavar="N", help="start with the last N records or lines (default: 10)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="wait for more until the run ends (the default)")
    parser.add_argument("--once", action="store_true", help="exit after the last records instead of waiting for more")
    parser.add_argument("--console", action="store_true", help="show what the run printed, if it was captured")


def run(args: Namespace) -> int:
    stored = open_run(find.find(args.run, args.root), args)
    out = Output(sys.stdout)
    follow = printed_lines.follow if args.console else rows.follow
    follow(stored, out, args)
    if (state := stored.state) != "running":
        out.end(f"== {clean(state)}\n")
    return 0
