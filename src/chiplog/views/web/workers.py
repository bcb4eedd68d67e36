"""Threads that read runs for the server, so that its event loop never waits for a disk or a decoder.

They are daemons: a server that stops does not wait for a long read, as it would for a `ThreadPoolExecutor`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Generic, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")


class Workers:
    """Up to `threads` threads, of which one group of jobs, such as those of one run, may occupy `share`."""

    def __init__(self, threads: int, share: int | None = None) -> None:
        self._threads, self._share = threads, share or threads
        self._waiting: deque[_Job[object]] = deque()
        self._busy: Counter[str] = Counter()
        self._started = self._idle = 0
        self._changed = threading.Condition()

    async def run(self, group: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function returns, called on a thread; a job that is cancelled before its turn is never started."""
        return await asyncio.wrap_future(self._submit(group, partial(function, *args, **kwargs)))

    def map(self, function: Callable[[U], T], items: Iterable[U], group: Callable[[U], str] = lambda _: "") -> list[T]:
        """What a function returns for each item, for a caller that may wait."""
        futures = [self._submit(group(item), partial(function, item)) for item in items]
        return [future.result() for future in futures]

    def join(self, patience: float) -> bool:
        """Wait until no job is running; false if some still are when the time is up. Jobs that wait are dropped."""
        deadline = time.monotonic() + patience
        with self._changed:
            while self._waiting:
                self._waiting.popleft().future.cancel()
            return self._changed.wait_for(lambda: not self._busy.total(), max(0.0, deadline - time.monotonic()))

    def _submit(self, group: str, call: Callable[[], T]) -> Future[T]:
        job = _Job(group, call, Future[T]())
        with self._changed:
            self._waiting.append(job)  # type: ignore[arg-type]
            if not self._idle and self._started < self._threads:
                self._started += 1
                threading.Thread(target=self._work, name="chiplog-ui", daemon=True).start()
            self._changed.notify()
        return job.future

    def _work(self) -> None:
        while True:
            with self._changed:
                while (job := self._next()) is None:
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                self._busy[job.group] += 1
            try:
                job.run()
            finally:
                with self._changed:
                    self._busy -= Counter({job.group: 1})
                    self._changed.notify_all()
            del job  # its result may be large

    def _next(self) -> _Job[object] | None:
        """The job that has waited longest, of a group that has not used up its share."""
        for at, job in enumerate(self._waiting):
            if self._busy[job.group] < self._share:
                del self._waiting[at]
                return job
        return None


class _Job(NamedTuple, Generic[T]):
    group: str
    call: Callable[[], T]
    future: Future[T]

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.call()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)
