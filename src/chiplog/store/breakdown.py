"""The waterfall of a usual step of a stored run: from its series, and from its spans where it has them."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from chiplog.metrics.waterfall import Share, waterfall

if TYPE_CHECKING:
    from chiplog.store.frame import Frame
    from chiplog.store.spans import Spans

LATE = 100  # rows whose median is the usual value
TRACED = 20  # steps whose spans are looked at
# Spans of the host that wait for other ranks: what they take is not hidden behind compute.
COMMUNICATION = ("comm*", "*communication*", "all_reduce*", "allreduce*", "all_gather*", "reduce_scatter*", "barrier*")


def usual_step(frame: Frame, spans: Spans) -> list[Share]:
    """The parts of a step of late, all together its time; empty when the time of steps is not known."""
    step = _usual(frame, "train/step_time_sec")
    if step is None or step <= 0:
        return []
    mfu, data = _usual(frame, "train/mfu"), _usual(frame, "train/data_time_sec")
    communication, idle = _traced(spans)
    host = None if idle is None else max(0.0, idle - (data or 0.0) - (communication or 0.0))
    return waterfall(
        step, compute=None if mfu is None else mfu * step, communication=communication, data=data, host=host
    )


def _usual(frame: Frame, name: str) -> float | None:
    values = frame.series(name).values[-LATE:]
    values = values[np.isfinite(values)]
    return float(np.median(values)) if len(values) else None


def _traced(spans: Spans) -> tuple[float | None, float | None]:
    """Seconds a step in communication, and seconds a step in which the busiest device had nothing to do."""
    steps = spans.steps[-TRACED:]
    spans = spans.at(first=steps[0]) if steps else spans
    waits, idles = [], []
    for step in steps:
        of_step = spans.at(step)
        waits.append(of_step.host().named(*COMMUNICATION).total())
        if gaps := of_step.device().idle():
            idles.append(min(gaps.values()))
    return (median(waits) if any(waits) else None), (median(idles) if idles else None)
