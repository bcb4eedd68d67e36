"""`chiplog cat`: records as strict JSON Lines."""

from __future__ import annotations

import sys
from argparse import Namespace

from chiplog.core import records
from chiplog.core.errors import BadSetting
from chiplog.sinks.jsonl import line
from chiplog.store.reader import Stored
from chiplog.store.runs import find

BATCH = 512  # lines per write


def run(args: Namespace) -> int:
    stored = Stored(find.find(args.run, args.root))
    out = sys.stdout.buffer
    waiting: list[bytes] = []
    found = False
    for record in stored.records(args.kind, args.rank):
        found = True
        waiting.append(line(record))
        if len(waiting) >= BATCH:
            out.write(b"\n".join(waiting) + b"\n")
            waiting = []
    if waiting:
        out.write(b"\n".join(waiting) + b"\n")
    out.flush()
    if not found and args.kind is not None and args.kind not in records.KINDS:
        raise BadSetting(f"no records of kind {args.kind!r} in this run; the kinds are: {', '.join(records.KINDS)}")
    return 0
