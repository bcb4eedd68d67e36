"""Calls to a user's backend on the thread that logs, where a front end promises that."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from chiplog.sinks.adapters.backend_calls import Call, Calls

MOST = 10_000  # calls that wait for a backend that is down
LAST = 5.0  # s at the end to make those


class DirectCalls:
    """Makes calls at once. One that raises is retried, then skipped and counted; in an outage calls wait for the next
    one, and for the end.

    `failed` gets what a backend has raised that may be down. An interrupt is passed on to the caller.
    """

    def __init__(self, failed: Callable[[Exception], object] = lambda _: None) -> None:
        self._failed = failed
        self._calls = Calls()
        self._lost = 0  # for want of room
        self._interrupt: BaseException | None = None

    @property
    def why(self) -> str:
        """What the last call that was skipped has raised."""
        return self._calls.why

    def call(self, make: Callable[[], object], *, numbers: bool = True) -> None:
        """Make a call, after those that wait."""
        if len(self._calls) >= MOST:
            self._lost += 1
        else:
            self._calls.add([Call(partial(self._make, make), numbers)])
        try:
            self._calls.make()
        except Exception as error:
            self._failed(error)
        self._pass_interrupt()

    def close(self, timeout: float = LAST) -> int:
        """Make the waiting calls within the timeout; how many calls the backend has not accepted."""
        self._calls.make_last(time.monotonic() + timeout)
        self._pass_interrupt()
        return self._calls.skipped + self._lost + len(self._calls)

    def _make(self, make: Callable[[], object]) -> None:
        try:
            make()
        except Exception:
            raise
        except BaseException as error:  # a Ctrl-C of the user, which is not about the backend
            self._interrupt = error

    def _pass_interrupt(self) -> None:
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise interrupt
