"""Backends of your own: called directly, as a sink of rank 0, or from a queue on the other ranks.

All get one call per update, with everything that was logged in it.
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from chiplog.core.identity import Identity
from chiplog.core.records import Event, File, Known, Table
from chiplog.core.values import convert
from chiplog.frontends.ezpz.run_writer import is_on_device, leaves
from chiplog.sinks.adapters.backend_calls import Call
from chiplog.sinks.adapters.backends import TrackerAdapter
from chiplog.sinks.adapters.direct_calls import LAST, DirectCalls
from chiplog.sinks.shared.history_updates import Updates

logger = logging.getLogger("chiplog.ezpz")

AT_EXIT = 5.0  # s for the remaining calls when the process ends
MOST = 10_000  # calls that may wait; a slower backend loses the newest


def name_of(backend: object) -> str:
    return str(getattr(backend, "name", "") or type(backend).__name__).lower()


class DirectBackends:
    """Calls the backends of a list one after the other, and each as far as it works: see `DirectCalls`."""

    def __init__(self, backends: Sequence[Any]) -> None:
        self._backends = backends  # may change
        self._calls: dict[int, _BackendCalls] = {}

    def call(self, method: str, *args: object, **kwargs: object) -> None:
        """Call a method of every backend that has it."""
        for calls in self._of_all():
            calls.add(method, *args, **kwargs)

    def finish(self, timeout: float = LAST) -> None:
        """Make the calls that wait, report how many were not accepted, and finish every backend."""
        deadline = time.monotonic() + timeout
        for calls in self._of_all():
            calls.finish(deadline - time.monotonic())

    def _of_all(self) -> list[_BackendCalls]:
        return [self._calls.setdefault(id(one), _BackendCalls(one)) for one in self._backends]


class _BackendCalls:
    """The calls to one backend. What fails is reported once per method, and at the end how many were not accepted."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._calls = DirectCalls()
        self._reported: set[str] = set()
        self._missed = 0  # as far as reported

    def add(self, method: str, *args: object, **kwargs: object) -> None:
        if callable(function := getattr(self._native, method, None)):
            call = partial(self._make, method, partial(function, *_copies(args), **kwargs))
            self._calls.call(call, numbers=method == "log")

    def finish(self, timeout: float) -> None:
        missed = self._calls.close(timeout)
        if missed > self._missed:
            self._missed, calls = missed, f"{missed:,} call{'s' * (missed != 1)}"
            logger.warning("backend %s has not accepted %s (%s)", name_of(self._native), calls, self._calls.why)
        with suppress(Exception):  # it has been reported
            self._make("finish", getattr(self._native, "finish", tuple))

    def _make(self, method: str, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            if method not in self._reported:
                self._reported.add(method)
                name = name_of(self._native)
                logger.warning("backend %s.%s() failed: %s: %s", name, method, type(error).__name__, error)
            raise


class QueuedCalls:
    """On a rank without a journal: makes the calls that backends get on rank 0, on a thread, from a queue."""

    def __init__(self, backends: Sequence[Any]) -> None:
        self._direct = DirectBackends(backends)
        self._calls: queue.Queue[Callable[[], None] | None] = queue.Queue(MOST)
        self._lost = 0
        self._thread = threading.Thread(target=self._work, name="chiplog-ezpz-backends", daemon=True)
        self._thread.start()
        atexit.register(self.finish, AT_EXIT)  # few scripts finalize a history on ranks other than 0

    def log(self, metrics: Mapping[str, object], step: int | float | None, commit: bool) -> None:
        row = {name: _copy(value) for name, value in leaves(metrics)}
        self._add(lambda: self._direct.call("log", _plain(row), step=step, commit=commit))

    def call(self, method: str, *args: object, **kwargs: object) -> None:
        """Call a method of every backend, soon."""
        self._add(partial(self._direct.call, method, *_copies(args), **kwargs))

    def finish(self, timeout: float) -> None:
        """Make all waiting calls, then `finish`, within the timeout."""
        atexit.unregister(self.finish)
        if not self._thread.is_alive():
            return
        deadline = time.monotonic() + timeout
        try:
            self._calls.put(partial(self._direct.finish, timeout / 2), timeout=timeout)
            self._calls.put(None, timeout=max(0.1, deadline - time.monotonic()))
        except queue.Full:
            pass
        self._thread.join(max(0.1, deadline - time.monotonic()))
        if self._lost or self._thread.is_alive():
            left = self._lost + self._calls.qsize()
            logger.warning("%d calls to the backends of this rank were not made: the backends are too slow", left)

    def _add(self, call: Callable[[], None]) -> None:
        if not self._thread.is_alive():
            return
        try:
            self._calls.put_nowait(call)
        except queue.Full:
            self._lost += 1

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            with suppress(SystemExit):  # of a backend: this thread is not the training
                call()


def sink_factory(backend: object) -> Callable[..., TrackerAdapter]:
    """A factory of the sink of a backend; `outdir` is the `files` of a run, below its directory."""

    def make(outdir: str = "") -> TrackerAdapter:
        return _UpdateSink(backend, Path(outdir).parent)

    return make


class _UpdateSink(TrackerAdapter):
    """One call per update, with its vectors, texts and late values; statistics that come later are left out."""

    def __init__(self, backend: object, run: Path) -> None:
        super().__init__(backend, Identity("", "", run, "", ""))
        self._updates = Updates()

    def calls_for(self, record: Known) -> Iterator[Call]:
        for step, _, metrics in self._updates.feed(record):
            finite = step is not None and step - step == 0
            yield Call(partial(self.native.log, dict(metrics), step=step if finite else None, commit=True))
        if isinstance(record, (Table, File)) or (isinstance(record, Event) and record.name == "config"):
            yield from super().calls_for(record)


def _copies(arguments: Sequence[object]) -> list[object]:
    """The arguments of a call that may be made later."""
    return [dict(one) if type(one) is dict else one for one in arguments]


def _copy(value: Any) -> object:
    """A value as it is now, since the training may change it; one on a device is not waited for."""
    try:
        return value.detach().clone() if is_on_device(value) and hasattr(value, "detach") else convert.plain(value)
    except Exception:
        return convert.text(value)


def _plain(row: Mapping[str, object]) -> dict[str, object]:
    return {name: convert.plain(value) for name, value in row.items()}
