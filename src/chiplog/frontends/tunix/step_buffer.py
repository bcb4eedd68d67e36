"""Values gathered by step and brought to a metrics logger when the step is complete: what trainer and cluster share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from chiplog.core import messages
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger, mode_of
from chiplog.metrics.step_values.buffer import Buffer, Gathered
from chiplog.metrics.step_values.reducers import MetricsT
from chiplog.runtime.devices.pending_values import PendingValues

POLL = 0.02  # s between looks at values that are still on a device
IDLE = 0.5


class Gathering:
    """A buffer that empties itself into a logger: when asked, in the background, and at the end of the logger's run."""

    def __init__(self, logger: MetricsLogger, bring: Callable[[Gathered], None]) -> None:
        self._buffer = Buffer(PendingValues().holds)
        self._bring = bring
        if logger.run is not None:
            logger.run.keep(self._tend)
            logger.run.before_finish(lambda: self.flush(logger.left()))

    def add(self, metrics: MetricsT, mode: Any, step: int | float) -> None:
        """Take values along; one that is no (value, reducer) pair is a mistake, which is said and left out."""
        try:
            self._buffer.add(_pairs(metrics), mode_of(mode), step)
        except Exception as error:
            messages.once(f"tunix buffer {error}", f"metrics of step {step} are left out: {error}; training goes on")

    def complete(self, before: int | float | None = None) -> None:
        """Nothing more is expected for the steps before this one; what is on the host is logged now."""
        self._buffer.complete(before)
        self._give(self._buffer.drain())

    def flush(self, timeout: float) -> None:
        """Log everything. What is still on a device is waited for, but not for ever."""
        self._buffer.complete()
        self._give(self._buffer.drain())
        deadline = time.monotonic() + timeout
        while len(self._buffer) and time.monotonic() < deadline:
            time.sleep(POLL)
            self._give(self._buffer.drain())
        self._give(self._buffer.drain(rest=True))

    def _tend(self) -> float:
        self._give(self._buffer.drain())
        return POLL if len(self._buffer) else IDLE

    def _give(self, found: Iterable[Gathered]) -> None:
        for one in found:
            for name, why in one.troubles.items():
                messages.once(f"tunix reduce {name}", f"{name} is left out at step {one.step} ({one.mode}): {why}")
            self._bring(one)


def _pairs(metrics: Any) -> MetricsT:
    pairs = {}
    for name, pair in metrics.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not (pair[1] is None or callable(pair[1])):
            raise TypeError(f"{name!r} is no pair of a value and a reducer or None, but {pair!r:.100}")
        pairs[name] = (pair[0], pair[1])
    return pairs
