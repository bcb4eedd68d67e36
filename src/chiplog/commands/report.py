"""`chiplog report`: the end of a run, now or long after: data, plots and report in one place."""

from __future__ import annotations

import sys
from argparse import Namespace

from chiplog.core.notes import clean
from chiplog.store import index
from chiplog.store.reader import Stored
from chiplog.views import units
from chiplog.views.finalize import STAGES, finalize
from chiplog.views.textplots import Look


def run(args: Namespace) -> int:
    stored = Stored(index.find(args.run, args.root))
    screen = args.screen
    ending = finalize(
        stored,
        args.output,
        stages=args.only or STAGES,
        warmup=args.warmup,
        formats=args.data,
        pictures=args.pictures,
        look=Look(width=screen.width, colour=screen.colour, ascii=screen.ascii),
        show=sys.stdout.write if args.show else None,
    )
    for path in ending.made:
        if path.name.startswith("report.") or args.verbose or path.parent == (args.output or stored.path / "files"):
            print(f"{clean(str(path))}  {units.size(path.stat().st_size)}")
    pictures = sum(path.suffix in (".png", ".svg") for path in ending.made)
    texts = sum(path.suffix == ".txt" for path in ending.made)
    print(f"{len(ending.made):,} files, of them {pictures:,} pictures and {texts:,} text plots")
    return 1 if ending.trouble else 0
