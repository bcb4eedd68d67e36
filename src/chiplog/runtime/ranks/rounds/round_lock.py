"""The lock held while a round runs: by the thread, or by a caller that waits for its row."""

from __future__ import annotations

import threading
from types import TracebackType


class RoundLock:
    """A lock that a signal handler in the thread that holds it cannot take, and does not wait for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0

    def acquire(self, timeout: float = 0.0) -> bool:
        """Take the lock within this many seconds; False if that fails, or if this thread holds it already."""
        if self._holder == threading.get_ident() or not self._lock.acquire(timeout=timeout):
            return False
        self._holder = threading.get_ident()
        return True

    def release(self) -> None:
        self._holder = 0
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
