"""A bell: a thread sleeps until it is rung, or until a time is over."""

from __future__ import annotations

import threading


class Bell:
    """Rung from anywhere, signal handlers and finalizers too; rung twice, it wakes once.

    A lock, and no queue: CPython's `SimpleQueue.get` sleeps for ever when its time is over just as it looks again.
    """

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    def ring(self) -> None:
        if self._silence.locked():
            try:
                self._silence.release()
            except RuntimeError:  # another thread has just rung it
                pass

    def wait(self, seconds: float) -> bool:
        """Sleep; true when it was rung before the time was over."""
        return self._silence.acquire(timeout=max(seconds, 0.0))
