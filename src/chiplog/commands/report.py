"""Write a run's datasets, plots and report."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from chiplog.commands.shared.arguments import add_run, one_of, whole_number
from chiplog.commands.shared.open_run import open_run
from chiplog.core import display
from chiplog.core.errors import BadSetting
from chiplog.core.messages import clean
from chiplog.store.runs import find
from chiplog.views.charts.text_style import TextStyle
from chiplog.views.report.outputs import DATASETS, PICTURES, STAGES

LONGEST = 10_000  # columns of a title or a name in a pipe
EXAMPLE = "chiplog report latest -o outputs"


def arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "-o", dest="output", type=Path, metavar="DIR", help="output directory (default: files/ of the run)"
    )
    parser.add_argument(
        "--only",
        type=one_of(*STAGES),
        metavar="STAGES",
        help=f"write only these stages, separated by commas: {', '.join(STAGES)}",
    )
    parser.add_argument(
        "--data",
        type=one_of(*DATASETS),
        metavar="FORMATS",
        help="formats of the datasets: h5, nc, parquet, csv (default: h5)",
    )
    parser.add_argument(
        "--pictures",
        type=one_of(*PICTURES),
        metavar="FORMATS",
        help="formats of the plots: png, svg, pdf (default: png)",
    )
    parser.add_argument(
        "--warmup",
        type=_warmup,
        default=0,
        metavar="W",
        help="draws to discard at the start: a count (100) or a fraction (0.05)",
    )
    parser.add_argument("--show", action="store_true", help="also print the text plots")
    parser.add_argument("--verbose", action="store_true", help="list every file")


def run(args: Namespace) -> int:
    from chiplog.views.report.write import finalize

    stored = open_run(find.find(args.run, args.root), args)
    if args.output is None:
        _check_writable(stored.path)
    screen = args.screen
    ending = finalize(
        stored,
        args.output,
        stages=args.only or STAGES,
        warmup=args.warmup,
        formats=args.data or ["h5"],
        pictures=args.pictures or ["png"],
        look=TextStyle(
            width=screen.width,
            colour=screen.colour,
            ascii=screen.ascii,
            text_width=LONGEST if screen.room is None else None,
        ),
        show=sys.stdout.write if args.show else None,
    )
    for path in ending.made:
        if path.name.startswith("report.") or args.verbose or path.parent == (args.output or stored.path / "files"):
            print(f"{clean(str(path))}  {display.size(path.stat().st_size)}")
    pictures = sum(path.suffix.removeprefix(".") in PICTURES for path in ending.made)
    texts = sum(path.suffix == ".txt" for path in ending.made)
    kinds = [display.counted(number, noun) for number, noun in ((pictures, "picture"), (texts, "text plot")) if number]
    print(display.counted(len(ending.made), "file") + (f" ({', '.join(kinds)})" if kinds else ""))
    asked = args.only or args.data or args.pictures
    return 1 if ending.trouble.keys() - (() if asked else ending.missing) else 0


def _check_writable(run: Path) -> None:
    """Raise `BadSetting` if the output cannot be written into the run, such as that of another user."""
    place = files if (files := run / "files").is_dir() else run
    if not os.access(place, os.W_OK | os.X_OK):
        raise BadSetting(f"{place} cannot be written; choose another directory for the report with -o DIR")


def _warmup(text: str) -> int | float:
    try:
        return whole_number(text) if text.isdecimal() else float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is neither a count nor a fraction") from None
