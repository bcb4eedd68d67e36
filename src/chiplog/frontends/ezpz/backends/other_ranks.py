"""Backends of your own on ranks other than 0, which have no journal: called on a thread, from a queue."""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from chiplog.core.values import convert
from chiplog.frontends.ezpz.backends.custom import call_each
from chiplog.frontends.ezpz.writer import leaves
from chiplog.runtime.devices.pending_values import PendingValues

logger = logging.getLogger("chiplog.ezpz")

AT_EXIT = 5.0  # s for what is left when the process ends
MOST = 10_000  # calls that may wait; a backend further behind loses the newest

_on_device = PendingValues().holds


class OtherRank:
    """Makes the same calls that rank 0's backends get, with what this rank has logged."""

    def __init__(self, backends: Sequence[Any], name: Any) -> None:
        self._backends, self._name = list(backends), name
        self._calls: queue.Queue[tuple[str, tuple[Any, ...], dict[str, Any]] | None] = queue.Queue(MOST)
        self._lost = 0
        self._warned: set[tuple[int, str]] = set()
        self._thread = threading.Thread(target=self._work, name="chiplog-ezpz-backends", daemon=True)
        self._thread.start()
        atexit.register(self.finish, AT_EXIT)  # few scripts end a history on other ranks than 0

    def log(self, metrics: Mapping[str, Any], step: int | float | None, commit: bool) -> None:
        row = {name: _kept(value) for name, value in leaves(metrics)}
        self.call("log", row, step=step, commit=commit)

    def call(self, method: str, *args: Any, **kwargs: Any) -> None:
        """Have a method called on all of them, soon."""
        if not self._thread.is_alive():
            return
        try:
            self._calls.put_nowait((method, args, kwargs))
        except queue.Full:
            self._lost += 1

    def finish(self, timeout: float) -> None:
        """Let everything be called that waits, then `finish`; within the timeout."""
        atexit.unregister(self.finish)
        if not self._thread.is_alive():
            return
        until = time.monotonic() + timeout
        try:
            self._calls.put(("finish", (), {}), timeout=timeout)
            self._calls.put(None, timeout=max(0.1, until - time.monotonic()))
        except queue.Full:
            pass
        self._thread.join(max(0.1, until - time.monotonic()))
        if self._lost or self._thread.is_alive():
            left = self._lost + self._calls.qsize()
            logger.warning("%d calls were not made to the backends of this rank: they are too slow", left)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            method, args, kwargs = call
            if method == "log":
                args = ({name: convert.plain(value) for name, value in args[0].items()},)
            call_each(self._backends, method, args, kwargs, self._warned, self._name)


def _kept(value: Any) -> Any:
    """A value as it is now: the training may change it, and one on a device is not waited for here."""
    try:
        return value.detach().clone() if _on_device(value) and hasattr(value, "detach") else convert.plain(value)
    except Exception:
        return convert.text(value)
