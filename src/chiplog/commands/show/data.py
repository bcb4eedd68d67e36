"""`chiplog show --json`: everything about a run, as data."""

from __future__ import annotations

import time

import msgspec

from chiplog.core import records
from chiplog.core.errors import MissingPackage
from chiplog.store.contents.contents import Bounds, Contents
from chiplog.store.journal.cursors import SinkStatus, backends, cursors
from chiplog.store.reader import Stored
from chiplog.store.runs.state import AttemptState, live_streams, two_writers


def as_data(stored: Stored) -> dict[str, object]:
    """Everything about a run, by the names of the page's sections."""
    now = time.time_ns()
    contents = stored.contents(
        "eval",
        "alert",
        "histogram",
        "table",
        "text",
        "matrix",
        "file",
        "event",
        bounds=Bounds(events=0, rows=1, frames=1),
    )
    attempts = stored.attempts
    return {
        "project": stored.project,
        "id": stored.id,
        "name": stored.name,
        "state": stored.state,
        "created": stored.created,
        "tags": stored.tags,
        "path": str(stored.path.absolute()),
        "config": contents.config,
        "summary": contents.summary,
        "environment": contents.environment,
        "attempts": [_attempt(contents, one, now) for one in attempts],
        "two_writers": [[one.attempt, other.attempt] for one, other in two_writers(attempts, now)],
        "series": _series(stored),
        "histograms": {name: one._asdict() for name, one in contents.histograms.items()},
        "matrices": {
            name: {"shape": list(frames[-1].shape), "step": frames[-1].step}
            for name, frames in contents.matrices.items()
        },
        "tables": {
            name: {
                "rows": contents.sample_counts[name],
                "columns": list(contents.sample_columns[name]),
                "step": newest[-1].step,
            }
            for name, newest in contents.tables.items()
        },
        "texts": {
            name: {"count": contents.sample_counts[name], "last": newest[-1].cells.get("text"), "step": newest[-1].step}
            for name, newest in contents.texts.items()
        },
        "evals": [{"step": record.step, **record.metrics} for record in contents.evals],
        "goodput": _goodput(stored),
        "alerts": [records.fields(record) for record in contents.alerts],
        "files": [records.fields(record) for record in contents.files.values()],
        "sinks": {one.name: _sink(one) for one in (*cursors(stored.path), *backends(stored.path))},
        "damage": [damage._asdict() for damage in (*contents.damage, *contents.torn(live_streams(attempts)))],
        "missing": contents.missing,
    }


def _attempt(contents: Contents, attempt: AttemptState, now: int) -> dict[str, object]:
    stream = contents.stream(attempt.rank, attempt.attempt)
    steps = stream.step_range or (None, None)
    return {
        "attempt": attempt.attempt,
        "rank": attempt.rank,
        "launch": attempt.launch,
        "state": attempt.state,
        "started": attempt.start.time if attempt.start else None,
        "seconds": attempt.seconds(now),
        "first_step": steps[0],
        "last_step": steps[1],
        "records": stream.records,
        "workers": [_attempt(contents, one, now) for one in attempt.workers],
    }


def _series(stored: Stored) -> dict[str, object] | None:
    """The series by name; None if the packages to read them are missing."""
    try:
        names = stored.names()
    except MissingPackage:
        return None
    series: dict[str, object] = {}
    for one in filter(None, map(stored.overview, names)):
        low, high = one.range or (None, None)
        series[one.name] = {"last": one.last, "min": low, "max": high, "points": one.points, "nan": one.nans}
    return series


def _goodput(stored: Stored) -> dict[str, object] | None:
    """Where the time went; None without steps, or without the packages to read them."""
    try:
        ledger = stored.goodput()
    except MissingPackage:
        return None
    return {"share": ledger.goodput, **ledger._asdict()} if ledger.seconds["step"] else None


def _sink(status: SinkStatus) -> dict[str, object]:
    health = msgspec.structs.asdict(status.health) if status.health is not None else {}
    return {**health, "lag_bytes": status.lag, "trouble": status.trouble, **({"url": status.url} if status.url else {})}
