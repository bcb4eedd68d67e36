"""Delivery: each sink reads the journal on a thread of its own, from its own position.

There is no queue between `log` and a sink: the journal is the queue, and its newest part is in the page cache. So a
sink may be slow, absent or broken without anybody else noticing; it goes on where it was. A sink that keeps files has
its position and its state stored together in `cursors/`, and is put back to that state before a batch is tried again,
so each record reaches its files exactly once, also after a crash. For a service (`commits`) they are stored after every
batch it has accepted, so a crash repeats one batch at most. A lease keeps two deliverers of one run apart.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from chiplog.core import messages
from chiplog.core.errors import Refused, Rejected, RestartDelivery, SinkLost
from chiplog.core.protocols import Sink
from chiplog.core.records import AnyRecord
from chiplog.core.values.text import reason, words
from chiplog.sinks.adapters.backend_calls import Calls
from chiplog.sinks.adapters.backends import Wrapper
from chiplog.sinks.adapters.factories import FactoryThread, MadeSink, native
from chiplog.sinks.delivery.cursor import Cursor, cursor_path, load
from chiplog.sinks.delivery.lease import Lease
from chiplog.sinks.delivery.run_address import address, announce
from chiplog.store import layout
from chiplog.store.journal import lines
from chiplog.store.journal.cursors import write_health
from chiplog.store.journal.tail import Tail
from chiplog.store.runs.manifest import write_whole

POLL = 0.25  # s between looks at the journal
IDLE = 0.5  # s without a record before a sink is told so, with an empty batch
SAVE = 1.0  # s between writes of a cursor
LAST_TRIES = 5  # in a row, of a sink that raises when the run has ended
MOST_HELD = 1000  # records up to which a batch that is refused grows: one of them may be taken
COUNTING = 0.5  # s for counting the calls that are left
BACK_OFF = (0.5, 30.0)  # s: first and longest pause after an error
OTHERS = "another process delivers to it"


class RetryClock:
    """The time by which a courier waits and tries again."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, wake: threading.Event, seconds: float) -> None:
        wake.wait(seconds)


class Courier:
    """Brings one sink everything that is in the journal, and remembers how far it has come."""

    def __init__(
        self, name: str, sink: Sink, run: Path, segment: layout.Segment, clock: RetryClock | None = None
    ) -> None:
        self.name = name
        self._clock = clock or RetryClock()
        self._run = run
        self._path = cursor_path(run, name)
        self._first = segment
        self._calls = Calls()  # of somebody else's code
        self._keeps = self._commits = False
        self._lease: Lease | None = None
        self.sink = sink
        if not isinstance(sink, MadeSink) or sink.opened:
            self._take(sink)  # otherwise when its factory has returned
        self._tail: Tail | None = None
        self._batch: list[AnyRecord] = []  # read, and not yet accepted
        self._reading = False
        self._saved = Cursor()
        self._saved_at = 0.0
        self._closing = False
        self._patience = float("inf")  # s for which a service that fails is still tried when the run has ended
        self._accepted = 0.0  # when it took the last batch
        self._wake = threading.Event()
        self._thread: threading.Thread | FactoryThread = (
            sink.thread
            if isinstance(sink, MadeSink)
            else threading.Thread(target=self._work, name=f"chiplog-{name}", daemon=True)
        )
        self._heard = 0.0  # when the last batch came; 0 when the sink has been told that nothing more has
        self.state = "ok"
        self.delivered = 0
        self.rejected = 0
        self.errors = 0
        self._failures = 0  # since the last success
        self._made = 0  # calls that a backend had taken when it failed last
        self._noted = 0  # calls that were skipped, as far as that was said
        self._over = False  # given up
        self.announces = False  # print where the run is; not in the relay, whose training does
        self._held_by = ""  # another process that delivers to it
        self._cursor_seen = 0  # when that one last wrote its position
        self.moves = 0  # how often it did
        self.refused = False  # by its service, until a person has done something
        self.last_error = ""

    def start(self) -> None:
        """Begin; a sink that a factory makes is called on the thread that the factory was called on."""
        if isinstance(self._thread, FactoryThread):
            self._thread.start(self._work)
        else:
            self._thread.start()

    def health(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "delivered": self.delivered,
            "rejected": self.rejected,
            "skipped": self._calls.skipped,
            "lag_bytes": self._lag(),
            "errors": self.errors + self._calls.errors,
            "last_error": self.last_error or self._calls.why,
            **({"refused": True} if self.refused else {}),
            **({"over": True} if self._over and not self._closing else {}),
            **({"held_by": self._held_by} if self.state == OTHERS else {}),
            **self._address(),
        }

    def _address(self) -> dict[str, str]:
        return address(self.name, native(self.sink)) if self._commits else {}

    @property
    def over(self) -> bool:
        """Whether it has ended, with everything delivered or not."""
        return self._over or self.state == "closed"

    def caught_up(self) -> bool:
        """Whether the sink has everything that is in the journal; if not, it is asked to hurry."""
        done = self._tail is not None and self._tail.lag() == 0 and not self._reading and not self._batch
        if not done:
            self._wake.set()
        return done

    def close(self, patience: float) -> None:
        """Ask the courier to deliver what is left and end; does not wait. A service that fails is tried for so long."""
        self._failures = 0
        self._patience, self._accepted = patience, self._clock.now()
        self._closing = True
        self._wake.set()

    def wait(self, timeout: float) -> None:
        self._thread.join(max(0.0, timeout))

    def stop(self) -> None:
        """Have a backend that is too slow closed after the call that is under way; other sinks go on."""
        if not self.over and isinstance(self.sink, Wrapper):
            self._calls.stopped = self._over = True
            self._wake.set()

    def join(self, timeout: float) -> str | None:
        """Wait for the end; what is undelivered, if anything is."""
        self.wait(timeout)
        skipped = self._calls.skipped
        if self.state == "closed":
            return f"{_calls(skipped)} not delivered ({self._calls.why})" if skipped else None
        self._over = True  # if it wakes up again, it ends
        lag = self._lag()
        if self.state == OTHERS:
            return f"{self._held_by} is still delivering, with {lag:,} bytes of journal to go"
        held = len(self._batch)  # read, and not accepted
        why = self.last_error or "it did not answer in time"
        if not lag and (calls := len(self._calls) + skipped):
            return f"{_calls(calls)} not delivered ({why})"
        if not lag and not held:
            return f"it did not close ({why})"
        what = f"{lag:,} bytes of journal" if lag else f"{held:,} records"
        return f"{what} are not delivered ({why})"

    def _take(self, sink: Sink) -> None:
        """What there is to know of a sink that is there."""
        self.sink = sink.sink if isinstance(sink, MadeSink) else sink
        if isinstance(self.sink, Wrapper):
            self._calls = self.sink.calls
        self._keeps = hasattr(self.sink, "state") and hasattr(self.sink, "restore")
        self._commits = self._keeps and getattr(self.sink, "commits", False)
        self._lease = Lease(self._path.with_suffix(".lease")) if self._keeps else None

    def _work(self) -> None:
        threading.current_thread().name = f"chiplog-{self.name}"
        if isinstance(self.sink, MadeSink):
            self._take(self.sink)
        pause = 0.0
        while True:
            if pause:
                self._clock.wait(self._wake, pause)
                self._wake.clear()
            try:
                pause = 0.0 if self._calls.stopped else self._turn()
            except BaseException as error:  # a sink may raise anything, SystemExit too; it stays its own affair
                pause = self._trouble(error)
            if self.over:
                self._end()
                if self._lease is not None:
                    self._lease.release()  # another process may go on with it
                return

    def _turn(self) -> float:
        """Deliver a batch; the seconds to wait before the next turn."""
        if not self._run.is_dir():  # nothing is read from there, and nothing made in its place
            raise FileNotFoundError(f"{self._run} was renamed or deleted")
        if self._lease is not None and not self._lease.hold():
            self._watch_holder(self._lease)
            self._over = self._closing and (not self._commits or self._left() <= 0)
            return 0.5 if self._closing else 5.0
        if self._tail is None:
            self._tail = self._begin()
        self._reading = True
        batch = self._batch
        if not batch or (self._failures and len(batch) < MOST_HELD):
            batch += self._tail.read()
        self._reading = False
        now = self._clock.now()
        if batch or (self._heard and (self._closing or now - self._heard > IDLE)):
            self._bring(batch)
            if self._calls.stopped and len(self._calls):
                return 0.0
            self._batch = []
            self._heard = now if batch else 0.0
            self.state, self.last_error, self.refused = "ok", "", False
            self._failures, self._accepted = 0, now
            self._note_failures()
            if self._commits and batch:
                self._save()
                if self.announces:
                    announce(self._run, self.name, self._address())
        if self._closing and not batch:
            self.sink.close()
            self._save()
            if self._lease is not None:
                self._lease.release()
            self.state = "closed"
            self._note_failures()
            return 0.0
        if self._clock.now() - self._saved_at > SAVE:
            self._save()
        return 0.0 if self._closing or self._tail.more else POLL

    def _watch_holder(self, lease: Lease) -> None:
        """Learn who delivers instead, and how far that one is; as long as it moves on, it is waited for."""
        self._held_by = lease.held_by(self._run)
        self.state, self.last_error = OTHERS, f"{self._held_by} delivers to it"
        try:
            written = self._path.stat().st_mtime_ns
            if written != self._cursor_seen:
                self._saved = load(self._path)
                self._cursor_seen, self._accepted = written, self._clock.now()
                self.moves += 1
        except (OSError, ValueError):
            pass  # it is being written, or of no use; who gets the lease says so

    def _end(self) -> None:
        """Close a sink that was given up, in any case, when each call that is left has been tried once more. A service
        is not closed: what it lacks comes later."""
        if self._commits or self.state in ("closed", OTHERS):
            return
        try:
            if self._closing and not self._calls.stopped and self._tail is not None and isinstance(self.sink, Wrapper):
                until = time.monotonic() + max(0.1, self._left() / 2)
                while self.sink.write_last(self._batch, until):
                    self._batch = self._tail.read()
                    if not self._batch:
                        break
            self.sink.close()
            if self._calls.made and not self._batch and not self._calls.stopped:
                self.state = "closed"
        except BaseException as error:  # as everywhere here
            self.last_error = self.last_error or words(error)
        if self._calls.stopped:
            self._count_left()
        self._note_failures(say=self.state == "closed")

    def _count_left(self) -> None:
        """Plan the calls that a backend was too slow for, so that they are counted; of a long journal not all."""
        until = time.monotonic() + COUNTING
        self.state, self.last_error = "failing", self.last_error or "it did not take them in time"
        while isinstance(self.sink, Wrapper) and self._tail is not None and time.monotonic() < until:
            self.sink.left(self._batch)
            self._batch = self._tail.read()
            if not self._batch:
                break
        if not len(self._calls) and not self._lag():
            self.state, self.last_error = "closed", ""

    def _note_failures(self, say: bool = True) -> None:
        """Say that calls had to be made twice, or were skipped, once each; and keep for readers how many were."""
        calls = self._calls
        if say and calls.retried:
            messages.once(
                f"retried {self.name} {id(self)}",
                f"sink {self.name!r} raised {calls.retried}; it was tried again and has everything",
            )
        if calls.skipped == self._noted:
            return
        self._noted = calls.skipped
        if say:
            messages.once(
                f"skipped {self.name} {id(self)}",
                f"sink {self.name!r} does not take a call ({calls.why}); it is skipped and counted, the others are not",
            )
        try:
            write_health(self._run, self.name, self._first, self.health())
        except OSError as error:
            messages.once(f"health {self._path}", f"cannot keep how sink {self.name!r} is doing: {error}")

    def _bring(self, batch: Sequence[AnyRecord]) -> None:
        """Hand a batch over; what a service rejects for good is narrowed down to the record, and left out."""
        try:
            self.sink.write(batch)
        except Rejected as error:
            if len(batch) > 1:
                self._bring(batch[: len(batch) // 2])
                self._bring(batch[len(batch) // 2 :])
                return
            self.rejected += len(batch)
            messages.once(f"rejected {self.name} {id(self)}", f"sink {self.name!r} does not take a record: {error}")
        else:
            self.delivered += len(batch)

    def _begin(self) -> Tail:
        """Where to go on: for files from the stored cursor, otherwise from the start of this attempt."""
        rank, attempt = self._first.rank, self._first.attempt
        if not self._keeps:
            return Tail(self._run, rank=rank, attempt=attempt)
        try:
            self._saved = load(self._path)
        except FileNotFoundError:
            self._store(Cursor({}, self.sink.state()))  # type: ignore[attr-defined]  # before anything is written
        except (OSError, ValueError) as error:
            messages.say(f"the position of sink {self.name!r} cannot be read ({error}); it begins anew")
            self._store(Cursor())
        try:
            self.sink.restore(self._saved.state)  # type: ignore[attr-defined]
        except RestartDelivery as error:
            messages.say(f"sink {self.name!r} begins with the first record again: {error}")
            self._store(msgspec.structs.replace(self._saved, positions={}, state={}))
            self.sink.restore({})  # type: ignore[attr-defined]
        return Tail(self._run, rank=rank, positions=self._saved.positions)

    def _save(self) -> None:
        self._saved_at = self._clock.now()
        if self._tail is None or not self._keeps:
            return
        positions, state = self._tail.positions(), self.sink.state()  # type: ignore[attr-defined]
        url = self._address().get("url", self._saved.url)
        cursor = msgspec.structs.replace(self._saved, positions=positions, state=state, url=url)
        if cursor != self._saved:
            self._store(cursor)

    def _store(self, cursor: Cursor) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)  # and not the run, which may just have been renamed
        write_whole(self._path, lines.sealed(msgspec.json.encode(cursor)))
        self._saved = cursor

    def _trouble(self, error: BaseException) -> float:
        if self._calls.made > self._made:  # it has taken something in between
            self._made, self._failures = self._calls.made, 0
        self.errors += 1
        self._failures += 1
        lost, self.refused = isinstance(error, SinkLost), isinstance(error, Refused)
        if self._closing and self._commits:
            self._over = self._over or self._left() <= 0 or self.refused
        elif self._closing:
            self._over = self._over or self._failures >= LAST_TRIES or self._left() < self._patience / 2
        self._over = self._over or lost
        self.last_error = reason(error) if lost or self.refused else words(error)
        say_failing(self._run, self.name, f"{os.getpid()} {id(self)}", self.last_error, again=not self._over)
        self.state = "failing"
        self._go_back()
        first, longest = BACK_OFF
        pause = min(longest, first * 2 ** min(self._failures - 1, 10))
        return min(pause, max(first, self._left())) if self._commits or not self._closing else first

    def _lag(self) -> int:
        """The bytes of journal that it does not have; of one that was put back, from its stored position on."""
        tail = self._tail
        if tail is None and self._keeps and (self.errors or self.state == OTHERS):
            tail = Tail(self._run, rank=self._first.rank, positions=self._saved.positions)
        return tail.lag() if tail is not None else 0

    def _left(self) -> float:
        """The seconds for which a service is still tried."""
        return self._patience - (self._clock.now() - self._accepted)

    def _go_back(self) -> None:
        """Undo what the sink did since its state was stored, so that those batches can be tried again."""
        if self._keeps:
            self._batch = []
            self._tail = None  # so that the next turn begins with the stored cursor


def say_failing(run: Path, name: str, key: str, why: str, again: bool = True) -> None:
    """Say that a sink fails and why, the first time; not what a front end has said in its own words."""
    if messages.first(f"sink {name} {key}") and messages.first_reason(run, name, why):
        messages.say(
            f"sink {name!r} fails ({why}); it is {'' if again else 'not '}tried again, and the journal has everything"
        )


def _calls(number: int) -> str:
    return f"{number:,} call{' is' if number == 1 else 's are'}"
