"""Make runs of what other trackers have recorded."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog.commands.shared.foreign_paths import ProgressLine
from chiplog.core import display, messages
from chiplog.core.errors import RunNotFound
from chiplog.core.operating_system import check_writes
from chiplog.core.values.text import words
from chiplog.store import layout
from chiplog.views.strict_json import pretty
from chiplog.views.table import table

if TYPE_CHECKING:
    from chiplog.store.foreign.conversion import Conversion
    from chiplog.store.foreign.protocol import ForeignRun

EXAMPLE = "chiplog import wandb mlruns lightning_logs --project old"
COLUMNS = ("from", "project", "run", "state", "points", "")
SHOWN = 200  # rows of the table


@dataclass
class Imported:
    """One run of another tracker, and what became of it."""

    source: str
    format: str
    project: str
    id: str
    name: str
    state: str
    points: int
    change: str  # new, more, unchanged
    path: str
    lost: dict[str, int]


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files or folders of other trackers")
    parser.add_argument("--project", metavar="NAME", help="the project of all these runs (default: as recorded)")
    parser.add_argument("--dry-run", action="store_true", help="read everything and write nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    from chiplog.store.foreign import conversion, registry  # need numpy, which the help does without

    if not args.dry_run:
        check_writes("use --dry-run, or open them in place")
    runs: list[ForeignRun] = []
    for text in args.paths:
        path = Path(text).expanduser()
        if not path.exists():
            raise RunNotFound(f"no file or folder {text!r}")
        found_here = registry.find(path)
        if not found_here and next(layout.find_runs(path), None) is not None:
            raise RunNotFound(f"{text!r} has runs of chiplog, which need no import: `chiplog ls {text}` lists them")
        if not found_here:
            raise RunNotFound(registry.no_runs_in(text))
        runs += found_here
    imported = _import(runs, args, conversion.preview if args.dry_run else conversion.convert)
    if args.json:
        print(pretty([vars(one) for one in imported]))
    else:
        print(_table(imported, args))
        _report(imported, args)
    return 0 if len(imported) == len(runs) else 2


def _import(runs: Sequence[ForeignRun], args: Namespace, convert: Callable[..., Conversion]) -> list[Imported]:
    imported = []
    with ProgressLine() as progress:
        for number, one in enumerate(runs):

            def share(done: float, one: ForeignRun = one, number: int = number) -> None:
                progress.show(one, number, len(runs), done)

            share(0.0)
            try:
                done = convert(one, args.root, project=args.project, progress=share)
            except Exception as error:  # one run never takes the others with it
                messages.say(f"{one.path} cannot be imported: {words(error)}")
                continue
            about = done.about
            change = "new" if done.new else "more" if done.points else "unchanged"
            imported.append(
                Imported(
                    str(one.path),
                    one.format,
                    args.project or about.project,
                    done.run.name,
                    about.name or about.id,
                    about.state,
                    done.points,
                    change,
                    str(done.run),
                    done.lost,
                )
            )
    return imported


def _table(imported: Sequence[Imported], args: Namespace) -> str:
    rows = [
        [one.format, one.project, one.name, one.state, display.count(one.points), one.change]
        for one in imported[-SHOWN:]
    ]
    return table(COLUMNS, rows, width=args.screen.room, right=("points",), colour=args.screen.colour)


def _report(imported: Sequence[Imported], args: Namespace) -> None:
    """The totals, then by source what could not be kept."""
    points = sum(one.points for one in imported)
    new = sum(one.change == "new" for one in imported)
    verb = "would be written" if args.dry_run else "written"
    print(f"{display.counted(len(imported), 'run')} ({new:,} new), {points:,} points {verb} to {args.root}")
    for one in imported:
        for reason, count in one.lost.items():
            print(messages.clean(f"! {one.source}: not kept: {reason}" + (f" ({count:,})" if count > 1 else "")))
