"""Write a run as CSV, Parquet, JSON or HDF5.

HDF5 and NetCDF are datasets: one file per group of metrics.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from chiplog.commands.shared.arguments import add_run
from chiplog.core import display
from chiplog.core.errors import BadSetting, ChiplogError
from chiplog.store.reader import Stored
from chiplog.store.runs import find

PATIENCE = 0.5  # s before progress is shown
DATASETS = ("h5", "nc")
EXAMPLE = "chiplog export latest --to parquet -o run.parquet"


def arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--to", required=True, choices=("csv", "parquet", "json", *DATASETS), help="the format")
    parser.add_argument(
        "-o",
        dest="output",
        metavar="PATH",
        help="a file, a directory, or - for stdout; a directory for h5 and nc (default: named after the id)",
    )


def run(args: Namespace) -> int:
    stored = Stored(find.find(args.run, args.root))
    if args.to in DATASETS:
        _datasets(stored, args.to, Path(args.output or stored.path.name))
        return 0
    if args.output == "-":
        _to_stdout(stored, args.to)
        return 0
    path = Path(args.output or f"{stored.path.name}.{args.to}")
    if path.is_dir():
        path = path / f"{stored.path.name}.{args.to}"
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _write(stored, args.to, aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    print(f"{path}  {display.size(path.stat().st_size)}")
    return 0


def _datasets(stored: Stored, to: str, folder: Path) -> None:
    from chiplog.views.report.write import finalize  # needs numpy, which the help does without

    ending = finalize(stored, folder, stages=["data"], formats=[to], events=True)
    for path in ending.made:
        print(f"{path}  {display.size(path.stat().st_size)}")
    if ending.trouble:
        raise ChiplogError("some datasets could not be written")


def _to_stdout(stored: Stored, to: str) -> None:
    from chiplog.views.export import tables

    if to == "parquet":
        raise BadSetting("Parquet cannot be written to a pipe: name a file with -o PATH")
    writer = tables.to_csv if to == "csv" else tables.to_json
    writer(stored, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _write(stored: Stored, to: str, path: Path) -> None:
    from chiplog.views.export import tables

    if to == "parquet":
        tables.to_parquet(stored, path)
        return
    writer = tables.to_csv if to == "csv" else tables.to_json
    with path.open("wb") as out, _Progress() as progress:
        writer(stored, out, progress.show)


class _Progress:
    """Show a percentage on a terminal if the export takes long."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._shown = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, done: float) -> None:
        if sys.stderr.isatty() and time.monotonic() - self._start > PATIENCE:
            self._shown = True
            sys.stderr.write(f"\r{done:4.0%}")
            sys.stderr.flush()
