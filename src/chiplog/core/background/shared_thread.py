"""One background thread for all runs that are open beside another, so that hundreds of open runs cost no threads."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TypeAlias

from chiplog.core import messages
from chiplog.core.background import forks
from chiplog.core.background.thread import RETRY, Background, IdlePause, Task, call
from chiplog.core.background.wakeup import WakeUp

BLOCKED = 1.0  # s that the tasks of one run may take before the other runs go on, on another thread
TOGETHER = 0.1  # s: tasks that are due this soon are called now, so that the thread wakes up rarely
IDLE = 5.0  # s between the calls of all tasks of a run in which nothing happens


class SharedBackground:
    """What `Background` is, on a thread that serves several runs."""

    def __init__(self) -> None:
        self.due = 0.0
        self.woken = True
        self.thread: _SharedThread | None = None
        self._tasks: dict[Task, float] = {}
        self._idle: set[Task] = set()  # the tasks that had nothing to do when they were last called
        self._last: list[Callable[[], object]] = []
        self._stop = False
        self._ended = threading.Event()

    def add(self, task: Task) -> None:
        self._tasks[task] = 0.0
        self.woken = True

    def start(self) -> None:
        """Join the thread, which is started if there is none."""
        with _shared.lock:
            if _shared.current is None or _shared.current.pid != os.getpid():
                _shared.current = _SharedThread()
            _shared.current.take((self,))

    def wake(self) -> None:
        """Call all tasks now instead of when they are due; safe from anywhere, signal handlers included."""
        self.woken = True
        if self.thread is not None:
            self.thread.wake()
            self._leave_blocked()

    def stop(self, timeout: float, last: Callable[[], object]) -> bool:
        """Stop the tasks after a last call; true if it was made in time."""
        self._last.append(last)
        self._stop = True
        thread, until = self.thread, time.monotonic() + timeout
        if thread is None or thread.mine or not thread.started:
            self._end()
        self.wake()
        while not self._ended.wait(max(0.0, min(BLOCKED / 4, until - time.monotonic()))):
            self._leave_blocked()
            if time.monotonic() >= until:
                return False
        self.end()
        return True

    def end(self) -> None:
        """Make the last call on this thread, unless it has been made; for when the other one is blocked."""
        try:
            last = self._last.pop()
        except IndexError:
            return
        last()

    def turn(self) -> None:
        """Call what is due; on the shared thread only."""
        woken, self.woken = self.woken, False
        soon = time.monotonic() + TOGETHER
        for task, due in list(self._tasks.items()):
            if woken or due <= soon:
                pause = call(task)
                (self._idle.add if type(pause) is IdlePause or pause >= IDLE else self._idle.discard)(task)
                self._tasks[task] = time.monotonic() + pause
        if len(self._idle) == len(self._tasks):
            self._tasks = dict.fromkeys(self._tasks, soon + IDLE)
        self.due = min(self._tasks.values(), default=soon + IDLE)
        if self._stop:
            self._end()

    def _end(self) -> None:
        try:
            self.end()
        finally:
            with _shared.lock:
                if self.thread is not None:
                    self.thread.members.pop(self, None)
            self._ended.set()

    def _leave_blocked(self) -> None:
        """Go on without the run whose task, such as a function of the user's, blocks the thread; so do all others."""
        thread = self.thread
        if thread is None or not thread.blocked_by_other(self) or not _shared.lock.acquire(blocking=False):
            return
        try:
            if self.thread is thread and thread.blocked_by_other(self):
                _shared.current = _SharedThread()
                _shared.current.take([one for one in thread.members if one is not thread.busy])
        finally:
            _shared.lock.release()


class _SharedThread:
    """The thread, and the runs that it serves now."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.members: dict[SharedBackground, None] = {}  # in order
        self.busy: SharedBackground | None = None
        self._since = 0.0
        self._refused = 0.0  # when the system last refused to start the thread; 0 if it did not
        self._wakeup = WakeUp()
        self._thread = threading.Thread(target=self._loop, name="chiplog-background-shared", daemon=True)

    def take(self, members: Iterable[SharedBackground]) -> None:
        """Serve these from now on; called with the lock."""
        for member in members:
            if member.thread is not None:
                member.thread.members.pop(member, None)
            member.thread, member.woken = self, True
            self.members[member] = None
        if self._thread.ident is None:
            self._start()
        self._wakeup.set()

    def wake(self) -> None:
        self._wakeup.set()
        if self._refused and time.monotonic() - self._refused > RETRY:
            self._refused = 0.0
            self._thread = threading.Thread(target=self._loop, name=self._thread.name, daemon=True)
            self._start()

    def blocked_by_other(self, member: SharedBackground) -> bool:
        busy = self.busy
        return busy is not None and busy is not member and time.monotonic() - self._since > BLOCKED

    @property
    def mine(self) -> bool:
        """Whether this is the calling thread."""
        return self._thread is threading.current_thread()

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    def _start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            self._refused = time.monotonic()
            messages.once(
                f"thread {id(self)}", f"no background thread could be started ({error}); chiplog keeps trying"
            )

    def _loop(self) -> None:
        while True:
            soon = time.monotonic() + TOGETHER
            due = soon + IDLE
            for member in list(self.members):
                if member.woken or member.due <= soon:
                    with _shared.lock:
                        if member.thread is not self or member not in self.members:
                            continue
                        self.busy, self._since = member, time.monotonic()
                    try:
                        member.turn()
                    except BaseException as error:  # from a last call
                        messages.say(f"the end of a run failed: {error!r}")
                    self.busy = None
                due = min(due, member.due)
            with _shared.lock:
                if not self.members:
                    if _shared.current is self:
                        _shared.current = None
                    return
            self._wakeup.wait(max(0.01, due - time.monotonic()))


class _Current:
    """The thread that new runs join."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.current: _SharedThread | None = None
        self.first: weakref.ref[Background] | None = None  # of the run that was alone
        forks.watch(self)

    def forked(self) -> None:
        """In a forked child: none of the parent's threads is there, and its lock may stay taken."""
        self.lock = threading.RLock()
        self.current = None


_shared = _Current()
RunBackground: TypeAlias = Background | SharedBackground


def background() -> RunBackground:
    """A thread of its own for the only open run of a process; for runs beside it, the shared one."""
    with _shared.lock:  # runs may be opened on several threads at once
        first = _shared.first() if _shared.first is not None else None
        if first is not None and (first.alive or first.reserved):
            return SharedBackground()
        own = Background("background")
        _shared.first = weakref.ref(own)
        return own
