"""The waterfall of a typical step of a stored run, from its series and, if it has them, its spans."""

from __future__ import annotations

from statistics import median

import numpy as np

from chiplog.metrics.waterfall import Share, waterfall
from chiplog.store.points.run_points import RunPoints
from chiplog.store.spans.spans import Spans

RECENT = 100  # rows whose median is the typical value
TRACED = 20  # steps whose spans are read
# Spans in which the host waits for other ranks: this time is not hidden behind compute.
COMMUNICATION = ("comm*", "*communication*", "all_reduce*", "allreduce*", "all_gather*", "reduce_scatter*", "barrier*")


def typical_step(points: RunPoints, spans: Spans) -> list[Share]:
    """A typical recent step, in parts that sum to its duration; empty if the step time is unknown."""
    step = _recent_median(points, "train/step_time_sec")
    if step is None or step <= 0:
        return []
    mfu, data = _recent_median(points, "train/mfu"), _recent_median(points, "train/data_time_sec")
    communication, idle = _traced(spans)
    host = None if idle is None else max(0.0, idle - (data or 0.0) - (communication or 0.0))
    return waterfall(
        step, compute=None if mfu is None else mfu * step, communication=communication, data=data, host=host
    )


def _recent_median(points: RunPoints, name: str) -> float | None:
    values = points.series(name).values[-RECENT:]
    values = values[np.isfinite(values)]
    return float(np.median(values)) if len(values) else None


def _traced(spans: Spans) -> tuple[float | None, float | None]:
    """Seconds per step in communication, and seconds per step in which the busiest device was idle."""
    steps = spans.steps[-TRACED:]
    spans = spans.at(first=steps[0]) if steps else spans
    waits, idles = [], []
    for step in steps:
        of_step = spans.at(step)
        waits.append(of_step.host().named(*COMMUNICATION).total())
        if gaps := of_step.device().idle():
            idles.append(min(gaps.values()))
    return (median(waits) if any(waits) else None), (median(idles) if idles else None)
