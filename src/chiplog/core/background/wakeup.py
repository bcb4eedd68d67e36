"""A wake-up call for a sleeping thread."""

from __future__ import annotations

import threading


class WakeUp:
    """Set from anywhere, signal handlers and finalizers included; set twice, it wakes the thread once.

    A lock rather than a queue: CPython's `SimpleQueue.get(timeout=...)` can block forever if the timeout expires during
    its retry.
    """

    def __init__(self) -> None:
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def set(self) -> None:
        if self._asleep.locked():
            try:
                self._asleep.release()
            except RuntimeError:  # another thread has just set it
                pass

    def wait(self, seconds: float) -> bool:
        """Sleep; true if it was set before the timeout."""
        return self._asleep.acquire(timeout=max(seconds, 0.0))
