"""`chiplog show --ranks`: one series across all ranks of a run."""

from __future__ import annotations

import numpy as np

from chiplog.core import display
from chiplog.core.display import STATES, Screen, paint
from chiplog.core.messages import clean
from chiplog.metrics.catalog import STEP_TIME, is_loss, is_statistic
from chiplog.store.points.series import ByRank
from chiplog.store.reader import Stored
from chiplog.store.runs.state import AttemptState, last_values
from chiplog.views.charts.heatmap import distances, heatmap
from chiplog.views.table import Cell, table

MOST = 20  # ranks in the table, unless all are asked for


def show_ranks(stored: Stored, name: str | None, screen: Screen, *, every: bool = False) -> str:
    """The ranks that deviate most, and a heat map."""
    name = name or default_name(stored)
    if not name:
        return "this run has no series yet"
    matrix = stored.series(name).by_rank()
    if not len(matrix.steps):
        return f"no rank has a series {clean(name)!r}"
    newest = {one.rank: one for one in stored.attempts}  # the last attempt of each rank
    if len(newest) == 1:
        return (
            f"only rank {next(iter(newest))} keeps a journal in this run; with init(ranks='all') every rank does. "
            "Statistics across ranks, if any, are the series …/mean, …/max, …/min and …/std"
        )
    title = paint(f"{clean(name)} by rank", "1", screen.colour)
    shown = heatmap(
        matrix, width=screen.width - 2, height=max(8, screen.height - 10), colour=screen.colour, ascii=screen.ascii
    )
    return f"{_table(newest, matrix, screen, every)}\n\n{title}\n{shown}"


def default_name(stored: Stored) -> str:
    """The step time if it is logged, otherwise a loss, otherwise the first series of the main rank."""
    names = [name for name in last_values(stored.path) if _may_be(name)]
    names = names or [name for name in stored.names() if _may_be(name)] or stored.names()
    timed = (name for name in names if name.endswith(STEP_TIME[-1]))
    return next(timed, next(filter(is_loss, names), next(iter(names), "")))


def _may_be(name: str) -> bool:
    return name != "step" and not is_statistic(name)


def _table(newest: dict[int, AttemptState], matrix: ByRank, screen: Screen, every: bool) -> str:
    away = distances(matrix.values)
    finite = np.isfinite(away).any(axis=0)
    far = np.zeros(len(matrix.ranks))
    far[finite] = np.nanmean(away[:, finite], axis=0)
    order = np.argsort(-far, kind="stable")
    rows: list[list[str | Cell]] = []
    for at in order.tolist() if every else order[:MOST].tolist():
        rank = int(matrix.ranks[at])
        attempt = newest.get(rank)
        there = np.flatnonzero(np.isfinite(matrix.values[:, at]))
        mean = display.number(float(matrix.values[there, at].mean())) if len(there) else ""
        rows.append(
            [
                str(rank),
                attempt.start.host if attempt is not None and attempt.start is not None else "",
                Cell(attempt.state, STATES.get(attempt.state, "")) if attempt is not None else "",
                display.count(matrix.steps[there[-1]].item()) if len(there) else "",
                mean,
                display.number(float(far[at])) if len(there) else "",
            ]
        )
    head = ["rank", "host", "state", "last step", "mean", "from median"]
    text = table(
        head, rows, width=screen.room, right=("rank", "last step", "mean", "from median"), colour=screen.colour
    )
    more = len(order) - len(rows)
    return text + (f"\nand {display.count(more)} nearer to the others: --all shows them" if more > 0 else "")
