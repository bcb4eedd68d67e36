"""List the runs, newest last."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from typing import NamedTuple

from chiplog.commands.shared.arguments import whole_number
from chiplog.core import display
from chiplog.core.display import STATES
from chiplog.metrics.catalog import pick_loss
from chiplog.store import layout
from chiplog.store.reader import Stored
from chiplog.store.runs import find, state
from chiplog.views.strict_json import pretty
from chiplog.views.table import Cell, table

EXAMPLE = "chiplog ls tiny-lm -n 20"
HEAD = ("project", "id", "name", "state", "started", "ran", "step", "loss")


class RunLine(NamedTuple):
    """One run in the list."""

    project: str
    id: str
    name: str
    state: str
    started: int  # wall-clock nanoseconds
    seconds: float
    step: int | float | None
    loss: int | float | None
    path: str


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("project", nargs="?", metavar="PROJECT", help="only the runs of this project")
    parser.add_argument("-n", type=whole_number, metavar="N", help="only the newest N")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: Namespace) -> int:
    runs = find.runs(args.root, args.project)
    if args.n is not None:
        runs = runs[max(0, len(runs) - args.n) :]
    now = time.time_ns()
    listed = [_summary(stored, now) for stored in runs]
    if args.json:
        print(pretty([line._asdict() for line in listed]))
    elif listed:
        rows = [_row(line, now) for line in listed]
        print(table(HEAD, rows, width=args.screen.width, right=("ran", "step", "loss"), colour=args.screen.colour))
    else:
        which = f"runs of project {args.project!r}" if args.project else "runs"
        print(f"no {which} under {args.root}; `chiplog demo` makes one, --dir names another directory")
    return 0


def _summary(stored: Stored, now: int) -> RunLine:
    """A summary that does not need the whole journal."""
    try:
        return _read(stored, now)
    except ImportError:  # its journal is compressed, and pyarrow is not installed
        return RunLine(
            stored.project, stored.id, stored.name, "pruned", stored.created, 0.0, None, None, str(stored.path)
        )


def _read(stored: Stored, now: int) -> RunLine:
    segments = layout.segments(stored.path)
    attempts = state.attempts(stored.path, rank=segments[0].rank) if segments else []
    seconds = sum(attempt.seconds(now) for attempt in attempts)
    started = next((attempt.start.time for attempt in attempts if attempt.start), stored.created)
    values = state.last_values(stored.path, lambda values: "step" in values and pick_loss(values) is not None)
    return RunLine(
        stored.project, stored.id, stored.name, state.judge(attempts), started, seconds,
        values.get("step"), pick_loss(values), str(stored.path),
    )  # fmt: skip


def _row(line: RunLine, now: int) -> list[str | Cell]:
    return [
        line.project,
        line.id,
        line.name if line.name != line.id else "",
        Cell(line.state, STATES.get(line.state, "")),
        display.ago(line.started, now) if line.started else "",
        display.duration(line.seconds),
        "" if line.step is None else display.count(line.step),
        "" if line.loss is None else display.number(line.loss),
    ]
