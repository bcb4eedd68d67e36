"""Values buffered by step and logged when the step is complete: what trainer and cluster share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from chiplog.core import messages
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger, Mode, mode_of
from chiplog.metrics.step_values.buffer import Buffer, Gathered
from chiplog.metrics.step_values.reducers import MetricsT
from chiplog.runtime.devices.pending_values import PendingValues

POLL = 0.02  # s between checks of values that are still on a device
IDLE = 0.5


class StepBuffer:
    """A buffer that passes complete steps on: on request, in the background, and when the logger's run ends."""

    def __init__(self, logger: MetricsLogger, log: Callable[[Gathered], None]) -> None:
        self._buffer = Buffer(PendingValues().holds)
        self._log = log
        if logger.run is not None:
            logger.run.keep(self._poll)
            logger.run.before_finish(lambda: self.flush(logger.left()))

    def add(self, metrics: MetricsT, mode: Mode | str, step: int | float) -> None:
        """Buffer values of a step; report and drop what is not a (value, reducer) pair."""
        try:
            for name, pair in metrics.items():
                _check(name, pair)
            self._buffer.add(metrics, mode_of(mode), step)
        except Exception as error:
            messages.once(f"tunix buffer {error}", f"metrics of step {step} are left out: {error}; training continues")

    def complete(self, before: int | float | None = None) -> None:
        """Expect nothing more for the steps before this one, and log those whose values are on the host."""
        self._buffer.complete(before)
        self._pass_on(self._buffer.drain())

    def flush(self, timeout: float) -> None:
        """Log everything; wait so long for values that are still on a device."""
        self.complete()
        deadline = time.monotonic() + timeout
        while len(self._buffer) and time.monotonic() < deadline:
            time.sleep(POLL)
            self._pass_on(self._buffer.drain())
        self._pass_on(self._buffer.drain(rest=True))

    def _poll(self) -> float:
        self._pass_on(self._buffer.drain())
        return POLL if len(self._buffer) else IDLE

    def _pass_on(self, steps: Iterable[Gathered]) -> None:
        for one in steps:
            for name, reason in one.troubles.items():
                messages.once(f"tunix reduce {name}", f"{name} is left out at step {one.step} ({one.mode}): {reason}")
            self._log(one)


def _check(name: str, pair: object) -> None:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not (pair[1] is None or callable(pair[1])):
        raise TypeError(f"{name!r} must be a pair of a value and a reducer or None, not {pair!r:.100}")
