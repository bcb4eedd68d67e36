"""`chiplog report`: datasets, plots and a report of a run, in one directory."""

from __future__ import annotations

import sys
from argparse import Namespace

from chiplog.core import display
from chiplog.core.messages import clean
from chiplog.store.reader import Stored
from chiplog.store.runs import find
from chiplog.views.charts.text_plot_files import Look
from chiplog.views.report.write import STAGES, finalize


def run(args: Namespace) -> int:
    stored = Stored(find.find(args.run, args.root))
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
            print(f"{clean(str(path))}  {display.size(path.stat().st_size)}")
    pictures = sum(path.suffix in (".png", ".svg") for path in ending.made)
    texts = sum(path.suffix == ".txt" for path in ending.made)
    print(f"{len(ending.made):,} files, including {pictures:,} pictures and {texts:,} text plots")
    return 1 if ending.trouble else 0
