"""Calls to a user's backend, each made once and in order, to distinguish a bad call from a backend that is down.

A call that raises is retried briefly. If it still fails, later ones are tried: if one of them succeeds, the backend
works, and the first call, if it fails once more, is skipped and counted. If none succeeds, the backend is down: nothing
is skipped, and everything is retried later. Only calls with numbers can show that a backend accepts numbers: a method
that does nothing succeeds in an outage too (docs/decisions/0027-one-bad-call-or-an-outage.md).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from chiplog.core.errors import Rejected, SinkLost
from chiplog.core.values.text import words

PAUSES = (0.05, 0.2)  # s before a failed call is retried
PROBES = (4, 1024)  # later calls that are tried when the first fails: initially, and at most
PROBING = 1.0  # s after which no more are tried
ABOUT_VALUES = (ValueError, TypeError, ArithmeticError, AssertionError, LookupError, AttributeError)


class Call(NamedTuple):
    """One call to be made."""

    make: Callable[[], object]
    numbers: bool = True  # whether it has points, not a config, a table or a file


class Calls:
    """A queue of calls. `skipped` counts those that were given up, and `why` is what the last of them raised."""

    def __init__(self) -> None:
        self._queue: deque[Call] = deque()
        self._down = False  # no call succeeded the last time
        self._probes = PROBES[0]
        self._value_errors: set[type[BaseException]] = set()  # raised by bad values
        self.made = 0
        self.skipped = 0
        self.errors = 0  # failures that were not raised to the caller
        self.why = ""
        self.retried = ""  # what a call raised that then succeeded
        self.stopped = False  # no call is made after the current one

    def add(self, calls: Iterable[Call]) -> None:
        self._queue.extend(calls)

    def __len__(self) -> int:
        return len(self._queue)

    def make(self) -> None:
        """Make all calls; raises if the backend is down, and continues with the same call the next time. What is left
        when it is `stopped` stays in the queue."""
        while self._queue and not self.stopped:
            error = self._try_first()
            if error is None:
                continue
            if not (ahead := self._find_good()):
                self._down = True
                raise error
            self._judge(ahead)

    def make_last(self, until: float) -> bool:
        """Try each call once, skipping those that fail, until that monotonic time; whether all were tried."""
        while self._queue and time.monotonic() < until:
            if (error := self._try(0)) is not None:
                self._skip(0, error)
        return not self._queue

    def _try_first(self) -> BaseException | None:
        """Make the first call, with a few retries unless the backend was down or the error is a known one."""
        error = self._try(0)
        for pause in () if self._down else PAUSES:
            if error is None or self._is_about_value(error):
                break
            self.errors += 1
            before = error
            time.sleep(pause)
            if (error := self._try(0)) is None:
                self.retried = words(before)
        return error

    def _find_good(self) -> int:
        """Make one of the later calls; how many were before it, or 0 if none could be made. In an outage more are
        tried every time, since many bad calls may be in a row."""
        started, made = time.monotonic(), self.made
        at, left, points = 1, self._probes, self._queue[0].numbers
        while left and at < len(self._queue) and time.monotonic() - started < PROBING:
            if points and not self._queue[at].numbers:
                at += 1
                continue
            left -= 1
            at += self._try(at) is not None
            if self.made > made:
                self._probes = PROBES[0]
                return at
        self._probes = min(PROBES[1], self._probes * 2)
        return 0

    def _judge(self, ahead: int) -> None:
        """Retry the calls that failed before one succeeded, and skip those that still fail: only the first of them,
        unless another success shows that the backend has not just gone down again."""
        bad: list[tuple[int, BaseException]] = []
        at, points = 0, self._queue[0].numbers
        for _ in range(ahead):
            if points and not self._queue[at].numbers:
                at += 1
            elif (error := self._try(at)) is not None:
                bad.append((at, error))
                at += 1
        made = self.made
        if len(bad) > 1 and at < len(self._queue):
            self._try(at)
        for place, error in reversed(bad if self.made > made else bad[:1]):
            self._skip(place, error)

    def _try(self, at: int) -> BaseException | None:
        """Make one call and remove it from the queue; returns what it raised, if a retry may succeed."""
        try:
            self._queue[at].make()
        except NotImplementedError:
            del self._queue[at]  # it does not support this kind of data
        except SinkLost:
            raise
        except Rejected as error:
            self._discard(at, error)
        except BaseException as error:  # even SystemExit, which must not end the thread
            return error
        else:
            del self._queue[at]
            self._down = False
            self.made += 1
        return None

    def _skip(self, at: int, error: BaseException) -> None:
        if isinstance(error, ABOUT_VALUES):
            self._value_errors.add(type(error))
        self._discard(at, error)

    def _discard(self, at: int, error: BaseException) -> None:
        del self._queue[at]
        self.skipped += 1
        self.errors += 1
        self.why = str(error) if isinstance(error, Rejected) else words(error)

    def _is_about_value(self, error: BaseException) -> bool:
        """Whether bad values have raised it before, so that waiting would not help."""
        return type(error) in self._value_errors
