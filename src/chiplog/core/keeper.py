"""The one background thread of a run: it calls the chores in turn, and sleeps in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from chiplog.core import notes
from chiplog.core.bell import Bell

Chore = Callable[[], float]  # does a little work; returns in how many seconds it wants to be called again


class Keeper:
    """Runs chores until stopped. A chore that raises is reported once and called again later."""

    def __init__(self, name: str) -> None:
        self._chores: list[Chore] = []
        self._bell = Bell()
        self._stop = False
        self._last: list[Callable[[], object]] = []
        self._thread = threading.Thread(target=self._loop, name=f"chiplog-{name}", daemon=True)

    def add(self, chore: Chore) -> None:
        self._chores.append(chore)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Call all chores now instead of when they are due; safe from anywhere."""
        self._bell.ring()

    def stop(self, timeout: float, last: Callable[[], object]) -> bool:
        """Ask the thread to end with a last call; true when it has."""
        self._last.append(last)
        self._stop = True
        self.wake()
        if self._thread is threading.current_thread() or self._thread.ident is None:
            self.end()
        else:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def end(self) -> None:
        """Make the last call, unless the thread has come to it; for when it is held up."""
        try:
            last = self._last.pop()
        except IndexError:
            return
        last()

    def _loop(self) -> None:
        due: dict[Chore, float] = {}
        woken = False
        while not self._stop:
            now = time.monotonic()
            for chore in list(self._chores):
                if woken or due.get(chore, 0.0) <= now:
                    due[chore] = time.monotonic() + self._call(chore)
            woken = self._bell.wait(max(0.01, min(due.values(), default=1.0) - time.monotonic()))
        self.end()

    def _call(self, chore: Chore) -> float:
        try:
            return chore()
        except Exception as error:
            notes.once(f"chore {chore!r}", f"a background task failed and will be tried again: {error!r}")
            return 5.0
