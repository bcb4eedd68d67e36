"""The one background thread of a run: it calls its tasks in turn and sleeps in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from chiplog.core import messages
from chiplog.core.background.wakeup import WakeUp

Task = Callable[[], float]  # does a little work and returns the seconds until it is due again


class IdlePause(float):
    """Seconds, from a task that had nothing to do: where runs share a thread, it is called less often."""


RETRY = 1.0  # s between tries to start a thread that the system has refused


class Background:
    """Calls tasks until stopped. A task that raises is reported once and called again later."""

    def __init__(self, name: str) -> None:
        self._tasks: list[Task] = []
        self._wakeup = WakeUp()
        self._stop = False
        self._last: list[Callable[[], object]] = []
        self._refused = 0.0  # when the system last refused to start the thread; 0 if it did not
        self._thread = threading.Thread(target=self._loop, name=f"chiplog-{name}", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    @property
    def reserved(self) -> bool:
        """Whether the thread is running or about to be started, so that another run must not expect to be alone."""
        return not self._stop and (self._thread.ident is None or self.alive)

    def add(self, task: Task) -> None:
        self._tasks.append(task)

    def start(self) -> None:
        """Start the thread. If the system refuses, `wake` tries again; records are written by the caller meanwhile."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._refused = time.monotonic()
            messages.once(
                f"thread {id(self)}", f"no background thread could be started ({error}); chiplog keeps trying"
            )

    def wake(self) -> None:
        """Call all tasks now instead of when they are due; safe from anywhere."""
        self._wakeup.set()
        if self._refused and time.monotonic() - self._refused > RETRY:
            self._refused = 0.0
            self._thread = threading.Thread(target=self._loop, name=self._thread.name, daemon=True)
            self.start()

    def stop(self, timeout: float, last: Callable[[], object]) -> bool:
        """Stop the thread after a last call; true if it has ended in time."""
        self._last.append(last)
        self._stop = True
        self.wake()
        if self._thread is threading.current_thread() or self._thread.ident is None:
            self.end()
        else:
            self._thread.join(timeout)
        if not self._thread.is_alive():  # it may have ended before
            self.end()
        return not self._thread.is_alive()

    def end(self) -> None:
        """Make the last call on this thread, unless the background thread has made it; for when that one is blocked."""
        try:
            last = self._last.pop()
        except IndexError:
            return
        last()

    def _loop(self) -> None:
        due: dict[Task, float] = {}
        woken = False
        while not self._stop:
            now = time.monotonic()
            for task in list(self._tasks):
                if woken or due.get(task, 0.0) <= now:
                    due[task] = time.monotonic() + call(task)
            woken = self._wakeup.wait(max(0.01, min(due.values(), default=1.0) - time.monotonic()))
        self.end()


def call(task: Task) -> float:
    """Call a task; the seconds until it is due again."""
    try:
        return task()
    except BaseException as error:  # a rule of the user may raise anything, even SystemExit
        messages.once(f"task {task!r}", f"a background task failed and will be retried: {error!r}")
        return 5.0
