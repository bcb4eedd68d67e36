"""Delivery: each sink reads the journal on its own thread, from its own position.

There is no queue between `log` and a sink: the journal is the queue, and its newest part is in the page cache. So a
sink may be slow, absent or broken without affecting anything else; it continues where it was. A sink that keeps files
has its position and its state saved together in `cursors/`, and is put back to that state before a batch is retried, so
that each record reaches its files exactly once, even after a crash. For a service (`commits`) they are saved after
every batch that it has accepted, so that a crash repeats one batch at most. A lease keeps two processes from delivering
to the same sink.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from chiplog.core import messages
from chiplog.core.errors import NeedsRelay, Refused, SinkLost
from chiplog.core.protocols import Sink
from chiplog.core.records import AnyRecord, Plain
from chiplog.core.values.redact import redact_values
from chiplog.core.values.text import reason, words
from chiplog.sinks.adapters.backend_calls import Calls
from chiplog.sinks.adapters.backends import Wrapper
from chiplog.sinks.adapters.factories import FactoryThread, MadeSink, native
from chiplog.sinks.delivery.batch_writer import BatchWriter, IdleBatch
from chiplog.sinks.delivery.call_report import CallReport, count_left
from chiplog.sinks.delivery.rejections import Rejections
from chiplog.sinks.delivery.retries import Retries, RetryClock
from chiplog.sinks.delivery.run_address import address, announce
from chiplog.sinks.delivery.sink_cursor import SinkCursor, StatefulSink
from chiplog.store import layout
from chiplog.store.journal.directory_identity import DirectoryIdentity
from chiplog.store.journal.tail import Tail, stream_key

POLL = 0.25  # s between reads of the journal
SAVE = 1.0  # s between writes of a cursor
MOST_HELD = 1000  # records up to which a batch that fails grows, since one of them may be accepted
OTHERS = "another process delivers to it"


class Courier:
    """Delivers the journal to one sink, and saves its position."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        run: Path,
        segment: layout.Segment,
        clock: RetryClock | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.sink = sink
        self.state = "ok"
        self.errors = 0
        self.last_error = ""
        self.refused = False  # by its service, until a person acts
        self.lost = False  # it can never accept anything again
        self.relayed = False  # given up here, for the relay process to deliver
        self.moves = 0  # how often another process has saved the cursor
        self.announces = False  # print the address of the run; not in the relay, where the training process does
        self._run, self._first, self._own = run, segment, DirectoryIdentity(run)
        self._clock, self._secrets = clock or RetryClock(), secrets
        self._retries = Retries(self._clock)
        self._calls = Calls()  # to a user's backend
        self._report = CallReport(run, name, segment)
        self._position: SinkCursor | None = None  # for a sink with a state
        self._tail: Tail | None = None
        self._batch: list[AnyRecord] = []  # read, but not yet accepted
        self._keys: list[str] = []  # the stream of each record of the batch
        self.writer = BatchWriter(name, secrets)
        self._reading = False
        self._saved_at = 0.0
        self._idle_batch = IdleBatch()
        self._made = 0  # calls that a backend had accepted at its last failure
        self._over = False  # given up
        self._held_by = ""  # another process that delivers to it
        self._wake = threading.Event()
        if not isinstance(sink, MadeSink) or sink.opened:
            self._open()  # otherwise once its factory has returned
        self._thread: threading.Thread | FactoryThread = (
            sink.thread
            if isinstance(sink, MadeSink)
            else threading.Thread(target=self._work, name=f"chiplog-{name}", daemon=True)
        )

    def start(self) -> None:
        """Start; the sink of a factory is called on the thread on which the factory was called."""
        if isinstance(self._thread, FactoryThread):
            self._thread.start(self._work)
            return
        try:
            self._thread.start()
        except RuntimeError as error:  # tried again at the end
            self._thread = threading.Thread(target=self._work, name=f"chiplog-{self.name}", daemon=True)
            self.state, self.last_error, self.errors = "failing", str(error), self.errors + 1
            say_failing(self._run, self.name, f"{os.getpid()} {id(self)}", self.last_error)

    def health(self) -> dict[str, Plain]:
        return {
            "state": self.state,
            "delivered": self.delivered,
            "rejected": self.writer.rejected(self.sink),
            "skipped": self._calls.skipped,
            "lag_bytes": self._lag(),
            "errors": self.errors + self._calls.errors,
            "last_error": self.last_error or self._calls.why,
            **({"refused": True} if self.refused else {}),
            **({"relayed": True} if self.relayed else {}),
            **({"over": True} if self._over and not self._retries.closing else {}),
            **({"held_by": self._held_by} if self.state == OTHERS else {}),
            **self._address(),
        }

    @property
    def delivered(self) -> int:
        """Records that the sink has accepted."""
        return self.writer.delivered

    @property
    def over(self) -> bool:
        """Whether it has ended, with everything delivered or not."""
        return self._over or self.state == "closed"

    @property
    def failing(self) -> bool:
        """Whether the sink lacks something that it may accept later."""
        return self.state not in ("closed", OTHERS) and not self.lost and not self.refused

    def caught_up(self) -> bool:
        """Whether the sink has everything in the journal; if not, it is woken."""
        done = self._tail is not None and self._tail.lag() == 0 and not self._reading and not self._batch
        if not done:
            self._wake.set()
        return done

    def close(self, patience: float) -> None:
        """Deliver the rest and end, without waiting for it. A service that fails is retried for `patience` seconds."""
        self._retries.close(patience)
        self._wake.set()
        if isinstance(self._thread, threading.Thread) and self._thread.ident is None:
            self.start()

    def wait(self, timeout: float) -> None:
        if not isinstance(self._thread, threading.Thread) or self._thread.ident is not None:
            self._thread.join(max(0.0, timeout))

    def stop(self) -> None:
        """Close a backend that is too slow after its current call; other sinks continue."""
        if not self.over and isinstance(self.sink, Wrapper):
            self._calls.stopped = self._over = True
            self._wake.set()

    def join(self, timeout: float) -> str | None:
        """Wait for the end; a description of what is undelivered, if anything is."""
        self.wait(timeout)
        skipped = self._calls.skipped
        if self.state == "closed":
            if rejected := self.writer.rejected(self.sink):
                number = "1 record was" if rejected == 1 else f"{rejected:,} records were"
                return f"{number} rejected ({self.writer.why or 'by the service'})"
            return f"{_calls(skipped)} not delivered ({self._calls.why})" if skipped else None
        self._over = True  # if it wakes up later, it ends
        lag = self._lag()
        if self.state == OTHERS:
            return f"{self._held_by} is still delivering, with {lag:,} bytes of journal to go"
        held = len(self._batch)
        why = self.last_error or "it did not answer in time"
        if not lag and (calls := len(self._calls) + skipped):
            return f"{_calls(calls)} not delivered ({why})"
        if not lag and not held:
            return f"it did not close ({why})"
        what = f"{lag:,} bytes of journal" if lag else f"{held:,} records"
        return f"{what} are not delivered ({why})"

    def _open(self) -> None:
        """Read the calls and the state of a sink that exists."""
        sink = self.sink = self.sink.sink if isinstance(self.sink, MadeSink) else self.sink
        if isinstance(sink, Wrapper):
            self._calls = sink.calls
        if hasattr(sink, "state") and hasattr(sink, "restore"):
            self._position = SinkCursor(self._run, self.name, self._first.rank, cast(StatefulSink, sink))
            self._retries.commits = getattr(sink, "commits", False)

    def _address(self) -> dict[str, str]:
        return address(self.name, native(self.sink)) if self._retries.commits else {}

    def _work(self) -> None:
        threading.current_thread().name = f"chiplog-{self.name}"
        if isinstance(self.sink, MadeSink):
            self._open()
        pause = 0.0
        while True:
            if pause:
                self._clock.wait(self._wake, pause)
                self._wake.clear()
            try:
                pause = 0.0 if self._calls.stopped else self._turn()
            except BaseException as error:  # a sink may raise anything, even SystemExit
                pause = self._fail(error)
            if self.over:
                self._end()
                if self._position is not None:
                    self._position.lease.release()  # another process may continue
                return

    def _turn(self) -> float:
        """Deliver a batch; the seconds to wait before the next turn."""
        if not self._own.check():  # nothing of this run is there, and nothing may be written in its place
            other = ", and another run is there now" if self._run.is_dir() else ""
            raise FileNotFoundError(f"{self._run} was renamed or deleted{other}")
        retries = self._retries
        if self._position is not None and not self._position.lease.hold():
            self._watch_holder(self._position)
            self._over = retries.closing and (not retries.commits or retries.left() <= 0)
            return 0.5 if retries.closing else 5.0
        if self._tail is None:
            if self._position is not None:
                self._tail = self._position.restore()
                self.writer.rejections = Rejections(self._position.rejected)
            else:
                self._tail = Tail(self._run, rank=self._first.rank, attempt=self._first.attempt)
        self._reading = True
        batch = self._batch
        if not batch or (retries.failures and len(batch) < MOST_HELD):
            batch += self._tail.read()
            self._keys += [stream_key(self._tail.source)] * (len(batch) - len(self._keys))
        self._reading = False
        now = self._clock.now()
        if batch or self._idle_batch.due(self.sink, now, closing=retries.closing):
            self.writer.write(self.sink, batch, self._keys, retries.failures)
            if self._calls.stopped and len(self._calls):
                return 0.0
            self._accept(batch, now)
        if retries.closing and not batch:
            self.writer.send_rejected(self.sink, self._run, self._first.rank)
            self.sink.close()
            self._save()
            if self._position is not None:
                self._position.lease.release()
            self.state = "closed"
            self._report.update(self._calls, self.health)
            return 0.0
        if self._clock.now() - self._saved_at > SAVE:
            self._save()
        return 0.0 if retries.closing or self._tail.more else POLL

    def _accept(self, batch: Sequence[AnyRecord], now: float) -> None:
        """Note that the sink has a batch."""
        self._batch, self._keys = [], []
        self._idle_batch.accepted(batch, now)
        self.state, self.last_error, self.refused = "ok", self.writer.why if self.writer.rejections else "", False
        self._retries.failures = 0
        self._retries.moved()
        self._report.update(self._calls, self.health)
        if self._retries.commits and batch:
            self._save()
            if self.announces:
                announce(self._run, self.name, self._address())

    def _watch_holder(self, position: SinkCursor) -> None:
        """Follow the process that delivers instead; as long as it makes progress, wait for it."""
        self._held_by = position.lease.held_by(self._run)
        self.state, self.last_error = OTHERS, f"{self._held_by} delivers to it"
        if position.poll():
            self._retries.moved()
            self.moves += 1

    def _save(self) -> None:
        self._saved_at = self._clock.now()
        if self._tail is not None and self._position is not None:
            self._position.save(self._tail, self._address().get("url"), self.writer.rejections.ranges)

    def _fail(self, error: BaseException) -> float:
        """Report an error and undo what was not saved; the seconds to wait."""
        retries = self._retries
        if self._calls.made > self._made:  # it has accepted something since
            self._made, retries.failures = self._calls.made, 0
        self.errors += 1
        retries.failures += 1
        self.lost, self.refused = isinstance(error, SinkLost), isinstance(error, Refused)
        self.relayed = isinstance(error, NeedsRelay)
        refused_at_end = self.refused and retries.closing and retries.commits
        self._over = self._over or self.lost or self.relayed or refused_at_end or retries.exhausted()
        plain = self.lost or self.refused or self.relayed
        self.last_error = redact_values(reason(error) if plain else words(error), self._secrets)
        again = self.relayed or not self._over
        say_failing(self._run, self.name, f"{os.getpid()} {id(self)}", self.last_error, again=again)
        self.state = "failing"
        if self._position is not None:
            self._batch, self._keys, self._tail = [], [], None  # the next turn starts from the saved position
        return retries.pause()

    def _lag(self) -> int:
        """The bytes of journal that the sink does not have."""
        tail = self._tail
        if tail is None and self._position is not None and (self.errors or self.state == OTHERS):
            tail = self._position.tail()
        return tail.lag() if tail is not None else 0

    def _end(self) -> None:
        """Close a sink that was given up, after trying each call that is left once more. A service is not closed: it
        gets the rest later."""
        if self._retries.commits or self.state in ("closed", OTHERS):
            return
        try:
            if (
                self._retries.closing
                and not self._calls.stopped
                and self._tail is not None
                and isinstance(self.sink, Wrapper)
            ):
                until = time.monotonic() + max(0.1, self._retries.left() / 2)
                while self.sink.write_last(self._batch, until):
                    self._batch = self._tail.read()
                    if not self._batch:
                        break
            self.sink.close()
            if self._calls.made and not self._batch and not self._calls.stopped:
                self.state = "closed"
        except BaseException as error:  # as in `_work`
            self.last_error = self.last_error or words(error)
        if self._calls.stopped:
            self.state, self.last_error = "failing", self.last_error or "it did not take them in time"
            if isinstance(self.sink, Wrapper) and self._tail is not None:
                self._batch = count_left(self.sink, self._batch, self._tail)
            if not len(self._calls) and not self._lag():
                self.state, self.last_error = "closed", ""
        self._report.update(self._calls, self.health, say=self.state == "closed")


def say_failing(run: Path, name: str, key: str, why: str, again: bool = True) -> None:
    """Report the first time that a sink fails and why, unless a front end has reported it in its own words."""
    if messages.first(failure_key(name, key)) and messages.first_reason(run, name, why):
        kept = ". Nothing is lost: the journal has everything" if run.is_dir() else ""
        messages.say(f"sink {name!r} failed ({why}); {'retrying' if again else 'not retrying'}{kept}")


def failure_key(name: str, key: str) -> str:
    """The key under which a failing sink is reported once."""
    return f"sink {name} {key}"


def _calls(number: int) -> str:
    return f"{number:,} call{' is' if number == 1 else 's are'}"
