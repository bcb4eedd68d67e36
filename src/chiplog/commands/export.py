"""Write a run as a file, or as files of another tracker.

HDF5 and NetCDF are datasets: one file per group of metrics. TensorBoard, W&B, MLflow and trackio are folders that these
open or upload; `chiplog sync` delivers to their servers.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from chiplog.commands.shared.arguments import add_run
from chiplog.commands.shared.open_run import open_run
from chiplog.commands.sync import delivery_process
from chiplog.core import display
from chiplog.core.errors import BadSetting, ChiplogError
from chiplog.core.files.writing import replacing
from chiplog.core.messages import clean
from chiplog.core.operating_system import check_writes
from chiplog.sinks.registry import QUIET
from chiplog.store.reader import Stored
from chiplog.store.runs import find
from chiplog.views.export.tracker_files import TRACKERS, to_tracker

PATIENCE = 0.5  # s before progress is shown
TABLES = ("csv", "parquet", "json")
DATASETS = ("h5", "nc")
FORMATS = (*TABLES, *DATASETS, *TRACKERS)
EXAMPLE = "chiplog export latest --to parquet -o run.parquet"


def arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--to", choices=FORMATS, help="the format (default: that of the file named with -o)")
    parser.add_argument(
        "-o",
        dest="output",
        metavar="PATH",
        help="a file, a directory, or - for stdout; a directory for datasets and other trackers (default: named after "
        "the id)",
    )


def run(args: Namespace) -> int:
    stored = open_run(find.find(args.run, args.root), args)
    to = args.to or _format(args.output)
    if to in DATASETS:
        _datasets(stored, to, Path(args.output or stored.path.name))
        return 0
    if args.to in TRACKERS:
        _tracker(stored, args)
        return 0
    if args.output == "-":
        _write(stored, to, None)
        return 0
    path = Path(args.output or f"{stored.path.name}.{to}")
    if path.is_dir():
        path = path / f"{stored.path.name}.{to}"
    with replacing(path) as temporary:
        _write(stored, to, temporary)
    print(f"{clean(str(path))}  {display.size(path.stat().st_size)}")
    return 0


def _format(output: str | None) -> str:
    """The format that the name of a file ends in; a folder of datasets has none."""
    ending = Path(output or "").suffix.removeprefix(".")
    if ending not in TABLES:
        raise BadSetting(f"name a format with --to: {', '.join(FORMATS)}; or a file with -o, such as -o run.csv")
    return ending


def _datasets(stored: Stored, to: str, folder: Path) -> None:
    from chiplog.views.report.write import finalize  # needs numpy, which the help does without

    ending = finalize(stored, folder, stages=["data"], formats=[to], events=True)
    for path in ending.made:
        print(f"{clean(str(path))}  {display.size(path.stat().st_size)}")
    if ending.trouble:
        raise ChiplogError("some datasets could not be written")


def _tracker(stored: Stored, args: Namespace) -> None:
    """Into a folder, with the package of the tracker, which may keep threads or processes of its own."""
    check_writes("use --to csv")
    if args.output == "-":
        raise BadSetting(f"{args.to} is a folder: name it with -o PATH")
    os.environ.update({**QUIET, "MLFLOW_LOGGING_LEVEL": "WARNING", **os.environ})
    if args.alone:
        delivery_process.start()
    folder = Path(args.output or stored.path.name).expanduser()
    with _Progress() as progress:
        written = to_tracker(stored, args.to, folder, dict(os.environ), progress.show)
    print(f"{clean(str(folder))}  {clean(written.how_to_open)}")
    for why, count in written.lost.items():
        print(clean(f"! not kept: {why}" + (f" ({count:,})" if count > 1 else "")))
    if args.alone:
        delivery_process.exit_at_once(0)


def _write(stored: Stored, to: str, temporary: Path | None) -> None:
    """To a file; without one, to stdout."""
    from chiplog.views.export import tables

    if to == "parquet":
        if temporary is None:
            raise BadSetting("Parquet cannot be written to a pipe: name a file with -o PATH")
        tables.to_parquet(stored, temporary)
        return
    writer = tables.to_csv if to == "csv" else tables.to_json
    if temporary is None:
        writer(stored, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with temporary.open("wb") as out, _Progress() as progress:
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
