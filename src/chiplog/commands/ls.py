"""`chiplog ls`: the runs, newest last."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any, NamedTuple

import msgspec

from chiplog.core import display
from chiplog.core.display import STATES
from chiplog.metrics.catalog import pick_loss
from chiplog.store import layout
from chiplog.store.reader import Stored
from chiplog.store.runs import find, state
from chiplog.views.table import Cell, table

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


def run(args: Namespace) -> int:
    found = find.runs(args.root, args.project)
    if args.n is not None:
        found = found[max(0, len(found) - args.n) :]
    now = time.time_ns()
    listed = [_glance(stored, now) for stored in found]
    if args.json:
        print(msgspec.json.format(msgspec.json.encode([_plain(line) for line in listed]), indent=2).decode())
    elif listed:
        rows = [_row(line, now) for line in listed]
        print(table(HEAD, rows, width=args.screen.width, right=("ran", "step", "loss"), colour=args.screen.colour))
    else:
        which = f"runs of project {args.project!r}" if args.project else "runs"
        print(f"no {which} under {args.root}; `chiplog demo` makes one, --dir names another directory")
    return 0


def _glance(stored: Stored, now: int) -> RunLine:
    """A summary that does not need the whole journal."""
    try:
        return _look(stored, now)
    except ImportError:  # its journal is compressed, and pyarrow is not installed
        return RunLine(
            stored.project, stored.id, stored.name, "pruned", stored.created, 0.0, None, None, str(stored.path)
        )


def _look(stored: Stored, now: int) -> RunLine:
    segments = layout.segments(stored.path)
    attempts = state.attempts(stored.path, rank=segments[0].rank) if segments else []
    doing = state.judge(attempts)
    seconds = sum(attempt.seconds(now) for attempt in attempts)
    started = next((attempt.start.time for attempt in attempts if attempt.start), stored.created)
    values = state.last_values(stored.path, lambda found: "step" in found and pick_loss(found) is not None)
    return RunLine(
        stored.project, stored.id, stored.name, doing, started, seconds,
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


def _plain(line: RunLine) -> dict[str, Any]:
    loss = line.loss if line.loss is None or line.loss - line.loss == 0 else str(line.loss)
    return {**line._asdict(), "loss": loss}
