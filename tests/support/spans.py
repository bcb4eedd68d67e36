"""Spans of a step, by hand."""

from __future__ import annotations

from typing import Any

from chiplog.store.spans.span import StoredSpan
from tests.store.spans.building import spans_of

S = 10**9


def span(
    number: int, name: str, begin: float, end: float, parent: int = 0, lane: str = "main", **more: Any
) -> StoredSpan:
    return StoredSpan(number, parent, name, lane, int(begin * S), int((end - begin) * S), **{"step": 0, **more})


# A step of 10 s: data, then forward whose device part waits for nothing, then a wait for the device.
STEP = spans_of(
    [
        span(1, "step", 0, 10),
        span(2, "data", 0, 2, 1),
        span(3, "forward", 2, 3, 1),
        span(4, "sync", 3, 9, 1),
        span(5, "forward", 2.5, 6, 3, "gpu0", kind="device"),
        span(6, "backward", 3, 3.5, 4),
        span(7, "queue", 3, 6, 6, "gpu0_queue", kind="queue"),
        span(8, "backward", 6, 9, 6, "gpu0", kind="device"),
    ]
)
