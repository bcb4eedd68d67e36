"""Write a run's records as JSON Lines."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from chiplog.commands.shared.arguments import add_run, whole_number
from chiplog.core import records
from chiplog.core.errors import BadSetting
from chiplog.sinks.jsonl import line
from chiplog.store import layout
from chiplog.store.reader import Stored
from chiplog.store.runs import find

EXAMPLE = "chiplog cat latest --kind eval"


def arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--kind", metavar="KIND", help="only records of this kind: step, eval, event, alert, ...")
    parser.add_argument("--rank", type=whole_number, metavar="R", help="only the records of this rank")


def run(args: Namespace) -> int:
    stored = Stored(find.find(args.run, args.root))
    ranks = sorted({segment.rank for segment in layout.segments(stored.path)})
    if args.rank is not None and args.rank not in ranks:
        raise BadSetting(f"{stored.id} has no rank {args.rank}; there are: {', '.join(map(str, ranks)) or 'none yet'}")
    out = sys.stdout.buffer
    written = 0
    for record in stored.records(args.kind, args.rank):
        written += out.write(line(record) + b"\n")
    out.flush()
    if not written and args.kind is not None and args.kind not in records.KINDS:
        raise BadSetting(f"no records of kind {args.kind!r} in this run; the kinds are: {', '.join(records.KINDS)}")
    return 0
