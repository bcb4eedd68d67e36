"""When a delivery that failed is tried again, and when it is given up."""

from __future__ import annotations

import threading
import time

LAST_TRIES = 5  # in a row, for a sink that raises after the run has ended
BACK_OFF = (0.5, 30.0)  # s: first and longest pause after an error


class RetryClock:
    """The time by which a courier waits and retries."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, wake: threading.Event, seconds: float) -> None:
        wake.wait(seconds)


class Retries:
    """Counts failures in a row, and the time since a sink accepted something.

    A service (`commits`) is tried until it has accepted nothing for `patience` seconds after the end of the run; any
    other sink a few times.
    """

    def __init__(self, clock: RetryClock) -> None:
        self.clock = clock
        self.commits = False
        self.closing = False
        self.failures = 0  # since the last success
        self._patience = float("inf")
        self._accepted = 0.0

    def close(self, patience: float) -> None:
        """The run has ended."""
        self.failures = 0
        self._patience = patience
        self.moved()
        self.closing = True

    def moved(self) -> None:
        """The sink has accepted something, from this process or another."""
        self._accepted = self.clock.now()

    def left(self) -> float:
        """The seconds for which a service is still tried."""
        return self._patience - (self.clock.now() - self._accepted)

    def exhausted(self) -> bool:
        """Whether to give up after a failure."""
        if not self.closing:
            return False
        if self.commits:
            return self.left() <= 0
        return self.failures >= LAST_TRIES or self.left() < self._patience / 2

    def pause(self) -> float:
        """The seconds to wait after a failure."""
        first, longest = BACK_OFF
        if self.closing and not self.commits:
            return first
        pause: float = min(longest, first * 2.0 ** min(self.failures - 1, 10))
        return min(pause, max(first, self.left()))
