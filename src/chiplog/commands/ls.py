"""`chiplog ls`: the runs, newest last."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from chiplog.commands.screen import STATES
from chiplog.store import index, layout, state
from chiplog.store.reader import Stored
from chiplog.views import units
from chiplog.views.table import Cell, table

LOSSES = ("train/loss", "loss", "eval/loss")  # the first of these that there is

HEAD = ("project", "id", "name", "state", "started", "ran", "step", "loss")


class Line(NamedTuple):
    """What is said of a run in a list."""

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
    found = index.runs(args.root, args.project)
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
        print(f"no {which} under {args.root}; `chiplog demo` makes one, --dir looks elsewhere")
    return 0


def _glance(stored: Stored, now: int) -> Line:
    """The little that can be known without reading the whole journal."""
    try:
        return _look(stored, now)
    except ImportError:  # its journal is compressed, and what reads it is not installed
        return Line(stored.project, stored.id, stored.name, "pruned", stored.created, 0.0, None, None, str(stored.path))


def _look(stored: Stored, now: int) -> Line:
    segments = layout.segments(stored.path)
    attempts = state.attempts(stored.path, rank=segments[0].rank) if segments else []
    doing = state.judge(attempts)
    seconds = sum(ran(attempt, now) for attempt in attempts)
    started = next((attempt.start.time for attempt in attempts if attempt.start), stored.created)
    values = state.last_values(stored.path, lambda found: "step" in found and pick_loss(found) is not None)
    return Line(
        stored.project, stored.id, stored.name, doing, started, seconds,
        values.get("step"), pick_loss(values), str(stored.path),
    )  # fmt: skip


def ran(attempt: state.AttemptState, now: int) -> float:
    """For how many seconds an attempt has run."""
    if attempt.start is None:
        return 0.0
    end = now if attempt.state == "running" else attempt.last.time if attempt.last else attempt.start.time
    return max(0, end - attempt.start.time) / 1e9


def pick_loss(values: Mapping[str, Any]) -> int | float | None:
    """The value that people call the loss."""
    others = (name for name in values if name.endswith("loss"))
    name = next((name for name in (*LOSSES, *others) if name in values), None)
    value = values[name] if name is not None else None
    return value if isinstance(value, (int, float)) else None


def _row(line: Line, now: int) -> list[str | Cell]:
    return [
        line.project,
        line.id,
        line.name if line.name != line.id else "",
        Cell(line.state, STATES.get(line.state, "")),
        units.ago(line.started, now) if line.started else "",
        units.duration(line.seconds),
        "" if line.step is None else units.count(line.step),
        "" if line.loss is None else units.number(line.loss),
    ]


def _plain(line: Line) -> dict[str, Any]:
    loss = line.loss if line.loss is None or line.loss - line.loss == 0 else str(line.loss)
    return {**line._asdict(), "loss": loss}
