"""Write a run's records as JSON Lines."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from chiplog.commands.shared.arguments import add_run, whole_number
from chiplog.commands.shared.open_run import open_run
from chiplog.core.errors import BadSetting
from chiplog.sinks.jsonl import line
from chiplog.store import layout
from chiplog.store.runs import find
from chiplog.views.strict_json import escaped

EXAMPLE = "chiplog cat latest --kind eval"


def arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--kind", metavar="KIND", help="only records of this kind: step, eval, event, alert, ...")
    parser.add_argument("--rank", type=whole_number, metavar="R", help="only the records of this rank")


def run(args: Namespace) -> int:
    stored = open_run(find.find(args.run, args.root), args)
    ranks = sorted({segment.rank for segment in layout.segments(stored.path)})
    if args.rank is not None and args.rank not in ranks:
        raise BadSetting(f"{stored.id} has no rank {args.rank}; available: {', '.join(map(str, ranks)) or 'none yet'}")
    out = sys.stdout.buffer
    for record in stored.records(args.kind, args.rank):
        out.write(escaped(line(record)) + b"\n")
    out.flush()
    return 0
