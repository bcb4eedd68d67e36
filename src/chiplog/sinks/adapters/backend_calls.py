"""Calls of somebody else's code, made in order, each once: one that fails for good is told from a backend that is down.

A call that raises is tried again, briefly. If it still fails, others behind it are tried: when one of them succeeds,
the backend works, and the first call, having failed once more, is skipped and counted. When none succeeds the backend
is down: nothing is skipped, and all of it is tried again later. That a backend takes numbers, only numbers can show: a
method that does nothing succeeds in an outage too (docs/decisions/0027-one-bad-call-or-an-outage.md).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from chiplog.core.errors import Rejected, SinkLost
from chiplog.core.values.text import words

PAUSES = (0.05, 0.2)  # s before a call that has failed is tried again
PROBES = (4, 1024)  # calls behind the first that are tried when it fails: at first, and at most
PROBING = 1.0  # s after which no further one is tried
ABOUT_VALUES = (ValueError, TypeError, ArithmeticError, AssertionError, LookupError, AttributeError)


class Call(NamedTuple):
    """One call that is to be made."""

    make: Callable[[], object]
    numbers: bool = True  # brings points, and not a config, a table or a file


class Calls:
    """A queue of calls. `skipped` counts those that were given up, and `why` says what the last of them raised."""

    def __init__(self) -> None:
        self._queue: deque[Call] = deque()
        self._down = False  # none of them succeeded the last time
        self._probes = PROBES[0]
        self._known: set[type[BaseException]] = set()  # what bad values have raised
        self.made = 0
        self.skipped = 0
        self.errors = 0  # failures that were not raised from here
        self.why = ""
        self.retried = ""  # what a call raised that was made a moment later
        self.stopped = False  # no call is made after the one that is under way

    def add(self, calls: Iterable[Call]) -> None:
        self._queue.extend(calls)

    def __len__(self) -> int:
        return len(self._queue)

    def make(self) -> None:
        """Make all calls; raises when the backend is down, and goes on with the same the next time. What is left when
        it was `stopped` stays in the queue."""
        while self._queue and not self.stopped:
            error = self._try_first()
            if error is None:
                continue
            if not (ahead := self._find_good()):
                self._down = True
                raise error
            self._judge(ahead)

    def make_last(self, until: float) -> bool:
        """Try each call once, and skip those that fail, until that time of the monotonic clock; whether it did all."""
        while self._queue and time.monotonic() < until:
            if (error := self._try(0)) is not None:
                self._skip(0, error)
        return not self._queue

    def _try_first(self) -> BaseException | None:
        """Make the first call, with a few tries: only one where the backend was down, or the error is known."""
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
        """Make one of the calls behind the first; how many stood before it, or 0 when none could be made. In an outage
        more of them are tried every time: the first may stand at the head of many that are as bad."""
        began, made = time.monotonic(), self.made
        at, left, points = 1, self._probes, self._queue[0].numbers
        while left and at < len(self._queue) and time.monotonic() - began < PROBING:
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
        """Try those again that failed before one succeeded, and skip what still fails: only the first of them, unless
        another success shows that the backend has not just gone down again."""
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
        """Make one call and take it from the queue; what it raised, if that may be different the next time."""
        try:
            self._queue[at].make()
        except NotImplementedError:
            del self._queue[at]  # it does not take this kind of thing
        except SinkLost:
            raise
        except Rejected as error:
            self._forget(at, error)
        except BaseException as error:  # SystemExit too: it is the backend's affair
            return error
        else:
            del self._queue[at]
            self._down = False
            self.made += 1
        return None

    def _skip(self, at: int, error: BaseException) -> None:
        if isinstance(error, ABOUT_VALUES):
            self._known.add(type(error))
        self._forget(at, error)

    def _forget(self, at: int, error: BaseException) -> None:
        del self._queue[at]
        self.skipped += 1
        self.errors += 1
        self.why = str(error) if isinstance(error, Rejected) else words(error)

    def _is_about_value(self, error: BaseException) -> bool:
        """Whether it is what a bad value has raised before: waiting would not help."""
        return type(error) in self._known
