"""The attempts of a stored run, prepared for goodput: when each ran, when its steps were, and what else it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from chiplog.metrics.goodput import AttemptTime, Floats
from chiplog.store.points.hidden_points import before
from chiplog.store.points.run_points import RunPoints
from chiplog.store.points.series import Series
from chiplog.store.runs.state import AttemptState
from chiplog.store.spans.span import StoredSpan
from chiplog.store.spans.spans import Spans

LENGTH, WAIT, STEPS = "train/step_time_sec", "train/data_time_sec", "train/interval_steps"
# Spans that show what a run does when it does not train.
KINDS = {
    "compile": "compile",
    "eval": "eval",
    "evaluate": "eval",
    "validation": "eval",
    "checkpoint": "checkpoint",
    "save": "checkpoint",
    "save_checkpoint": "checkpoint",
}


def attempt_times(points: RunPoints, attempts: Sequence[AttemptState], spans: Spans, now: int) -> list[AttemptTime]:
    """The attempts of one rank; attached workers do not count as attempts of the training."""
    own = [one for one in attempts if one.start is not None and not one.start.attached]
    others = spans.named(*KINDS)
    return [_attempt_time(points, one, others, now) for one in own]


@np.errstate(all="ignore")  # steps may be infinities
def _attempt_time(points: RunPoints, attempt: AttemptState, spans: Sequence[StoredSpan], now: int) -> AttemptTime:
    assert attempt.start is not None
    start = attempt.start.time
    end = now if attempt.state == "running" else max(start, attempt.last.time if attempt.last else start)
    name = _clock(points)
    series = points.series(name, attempt.rank, attempt.attempt)
    visible = before(series.steps, points.limit(attempt.rank, attempt.attempt))
    ends = (series.times.astype(np.int64) - start) / 1e9
    if name == LENGTH:
        lengths, waits = _lengths(points, attempt, series, ends)
    else:  # from one row to the next; the duration of the first is unknown
        lengths, waits = np.diff(ends, prepend=ends[:1]), np.zeros(len(ends))
        if len(lengths) > 1:
            lengths[0] = min(float(np.median(lengths[1:])), float(ends[0]))
    return AttemptTime(
        start / 1e9,
        end / 1e9,
        ends + start / 1e9,
        lengths,
        waits,
        np.ones(len(series), bool) if visible is None else visible,
        list(_others(spans, attempt.rank, start, end)),
    )


def _clock(points: RunPoints) -> str:
    """The series whose points mark steps: the step time if it is logged, otherwise the longest series."""
    names = points.names()
    if LENGTH in names:
        return LENGTH
    training = [name for name in names if name.startswith("train/")] or [
        name for name in names if not name.startswith(("eval/", "gpu/", "cpu/", "smoothed/"))
    ]
    return max(training, key=points.count, default="")


def _lengths(points: RunPoints, attempt: AttemptState, series: Series, ends: Floats) -> tuple[Floats, Floats]:
    """How long the steps of each row took and waited for data; a row may cover several steps."""

    def beside(name: str, instead: Floats) -> Floats:
        other = points.series(name, attempt.rank, attempt.attempt)
        values = instead.copy()
        if len(other) and len(series):
            at = np.minimum(np.searchsorted(series.seqs, other.seqs), len(series) - 1)
            match = (series.seqs[at] == other.seqs) & np.isfinite(other.values)
            values[at[match]] = other.values[match]
        return values

    each = beside(f"{LENGTH}/mean", np.where(np.isfinite(series.values), series.values, 0.0))
    between = np.diff(series.steps.astype(np.float64), prepend=series.steps[:1] - 1.0)
    steps = beside(STEPS, np.where(between >= 1, between, 1.0))
    waits = beside(f"{WAIT}/mean", beside(WAIT, np.zeros(len(series))))
    lengths = np.minimum(each * steps, np.maximum(np.diff(ends, prepend=0.0), each))
    return lengths, np.minimum(waits * steps, lengths)


def _others(spans: Sequence[StoredSpan], rank: int, start: int, end: int) -> Iterator[tuple[str, float, float]]:
    for span in spans:
        kind = KINDS.get(span.name)
        if kind is not None and span.rank == rank and start <= span.start <= end:
            yield kind, span.start / 1e9, (span.start + span.duration) / 1e9
