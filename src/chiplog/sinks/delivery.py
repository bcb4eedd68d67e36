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
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from chiplog.core import notes
from chiplog.core.ending import Post
from chiplog.core.errors import Anew, Lost, Rejected
from chiplog.core.files import make_dir
from chiplog.core.protocols import Sink
from chiplog.core.records import AnyRecord
from chiplog.core.redact import redact
from chiplog.core.texts import words
from chiplog.sinks.lease import Lease
from chiplog.sinks.wrappers import native
from chiplog.store import layout, lines
from chiplog.store.manifest import write_whole
from chiplog.store.tail import Positions, Tail

POLL = 0.25  # s between looks at the journal
IDLE = 0.5  # s without a record before a sink is told so, with an empty batch
SAVE = 1.0  # s between writes of a cursor
LAST_TRIES = 5  # in a row, of a sink that raises when the run has ended
BACK_OFF = (0.5, 30.0)  # s: first and longest pause after an error


class Cursor(msgspec.Struct):
    """How far a sink has come, and what it needs to go on from there; of a service, also how to open it again."""

    positions: Positions = {}
    state: dict[str, Any] = {}
    service: str | UnsetType = UNSET
    options: dict[str, Any] | UnsetType = UNSET  # without secrets; those are in the environment


def load(path: Path) -> Cursor:
    """A stored cursor; raises `ValueError` for one whose bytes are not those that were written."""
    data = path.read_bytes()
    if not lines.is_whole(data):
        raise ValueError("it does not match its CRC")
    try:
        return msgspec.json.decode(data, type=Cursor)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no cursor: {error}") from None


class Clock:
    """The time by which a courier waits and tries again."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, wake: threading.Event, seconds: float) -> None:
        wake.wait(seconds)


class Courier:
    """Brings one sink everything that is in the journal, and remembers how far it has come."""

    def __init__(self, name: str, sink: Sink, run: Path, segment: layout.Segment, clock: Clock | None = None) -> None:
        self.name, self.sink = name, sink
        self._clock = clock or Clock()
        self._run = run
        self._keeps = hasattr(sink, "state") and hasattr(sink, "restore")
        self._commits = self._keeps and getattr(sink, "commits", False)
        self._path = cursor_path(run, name)
        self._lease = Lease(self._path.with_suffix(".lease")) if self._keeps else None
        self._first = segment
        self._tail: Tail | None = None
        self._batch: list[AnyRecord] = []  # read, and not yet accepted
        self._reading = False
        self._saved = Cursor()
        self._saved_at = 0.0
        self._closing = False
        self._patience = float("inf")  # s for which a service that fails is still tried when the run has ended
        self._accepted = 0.0  # when it took the last batch
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"chiplog-{name}", daemon=True)
        self._heard = 0.0  # when the last batch came; 0 when the sink has been told that nothing more has
        self.state = "ok"
        self.delivered = 0
        self.rejected = 0
        self.errors = 0
        self._failures = 0  # since the last success
        self._over = False  # given up
        self.last_error = ""

    def start(self) -> None:
        self._thread.start()

    def health(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "delivered": self.delivered,
            "rejected": self.rejected,
            "lag_bytes": self._lag(),
            "errors": self.errors,
            "last_error": self.last_error,
        }

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

    def join(self, timeout: float) -> str | None:
        """Wait for the end; what is undelivered, if anything is."""
        self._thread.join(max(0.0, timeout))
        if self.state == "closed":
            return None
        self._over = True  # if it wakes up again, it ends
        lag = self._lag()
        held = len(self._batch)  # read, and not accepted
        why = self.last_error or "it did not answer in time"
        if not lag and not held:
            return f"it did not close ({why})"
        what = f"{lag:,} bytes of journal" if lag else f"{held:,} records"
        return f"{what} are not delivered ({why})"

    def _work(self) -> None:
        pause = 0.0
        while True:
            if pause:
                self._clock.wait(self._wake, pause)
                self._wake.clear()
            try:
                pause = self._turn()
            except BaseException as error:  # a sink may raise anything, SystemExit too; it stays its own affair
                pause = self._trouble(error)
            if self.over:
                return

    def _turn(self) -> float:
        """Deliver a batch; the seconds to wait before the next turn."""
        if not self._run.is_dir():  # nothing is read from there, and nothing made in its place
            raise FileNotFoundError(f"{self._run} was renamed or deleted")
        if self._lease is not None and not self._lease.hold():
            self.state = self.last_error = "another process delivers to it"
            self._over = self._closing and (not self._commits or self._left() <= 0)
            return 0.5 if self._closing else 5.0
        if self._tail is None:
            self._tail = self._begin()
        self._reading = True
        batch = self._batch = self._batch or self._tail.read()
        self._reading = False
        now = self._clock.now()
        if batch or (self._heard and (self._closing or now - self._heard > IDLE)):
            self._bring(batch)
            self._batch = []
            self._heard = now if batch else 0.0
            self.state, self.last_error = "ok", ""
            self._failures, self._accepted = 0, now
            if self._commits and batch:
                self._save()
        if self._closing and not batch:
            self.sink.close()
            self._save()
            if self._lease is not None:
                self._lease.release()
            self.state = "closed"
            return 0.0
        if self._clock.now() - self._saved_at > SAVE:
            self._save()
        return 0.0 if self._closing or self._tail.more else POLL

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
            notes.once(f"rejected {self.name} {id(self)}", f"sink {self.name!r} does not take a record: {error}")
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
            notes.say(f"the position of sink {self.name!r} cannot be read ({error}); it begins anew")
            self._store(Cursor())
        try:
            self.sink.restore(self._saved.state)  # type: ignore[attr-defined]
        except Anew as error:
            notes.say(f"sink {self.name!r} begins with the first record again: {error}")
            self._store(msgspec.structs.replace(self._saved, positions={}, state={}))
            self.sink.restore({})  # type: ignore[attr-defined]
        return Tail(self._run, rank=rank, positions=self._saved.positions)

    def _save(self) -> None:
        self._saved_at = self._clock.now()
        if self._tail is None or not self._keeps:
            return
        positions, state = self._tail.positions(), self.sink.state()  # type: ignore[attr-defined]
        cursor = msgspec.structs.replace(self._saved, positions=positions, state=state)
        if cursor != self._saved:
            self._store(cursor)

    def _store(self, cursor: Cursor) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)  # and not the run, which may just have been renamed
        write_whole(self._path, lines.sealed(msgspec.json.encode(cursor)))
        self._saved = cursor

    def _trouble(self, error: BaseException) -> float:
        self.errors += 1
        self._failures += 1
        if self._closing:
            tried = self._left() <= 0 if self._commits else self._failures >= LAST_TRIES
            self._over = self._over or tried
        lost = isinstance(error, Lost)
        self.last_error = str(error) if lost else words(error)
        notes.once(
            f"sink {self.name} {os.getpid()} {id(self)}",
            f"sink {self.name!r} fails ({self.last_error}); it is {'not ' if lost else ''}tried again, "
            "and the journal has everything",
        )
        self.state = "failing"
        self._over = self._over or lost
        self._go_back()
        first, longest = BACK_OFF
        pause = min(longest, first * 2 ** min(self._failures - 1, 10))
        return min(pause, max(first, self._left())) if self._commits or not self._closing else first

    def _lag(self) -> int:
        """The bytes of journal that it does not have; of one that was put back, from its stored position on."""
        tail = self._tail
        if tail is None and self._keeps and self.errors:
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


def cursor_path(run: Path, name: str) -> Path:
    return run / layout.CURSORS / f"{layout.slug(name)}.json"


def enrol(run: Path, service: str, options: Mapping[str, Any]) -> None:
    """Note that a service is to get this run, so that `chiplog sync` knows, also when nothing has been delivered."""
    path = cursor_path(run, service)
    make_dir(path.parent)
    try:
        cursor = load(path)
    except (OSError, ValueError):
        cursor = Cursor()
    wanted = msgspec.structs.replace(cursor, service=service, options=redact(options))
    if wanted != cursor:  # the relay of an earlier attempt may be at work on it
        write_whole(path, lines.sealed(msgspec.json.encode(wanted)))


def enrolled(run: Path) -> dict[str, dict[str, Any]]:
    """The services that are to get a run, with the options of each."""
    found = {}
    for path in sorted((run / layout.CURSORS).glob("*.json")):
        try:
            cursor = load(path)
        except (OSError, ValueError):
            continue
        if cursor.service:
            found[cursor.service] = cursor.options or {}
    return found


def settled(run: Path, besides: Container[str], patience: float = 10.0) -> None:
    """Wait until the sinks that keep files of a run are done with them, but for those named, and not for ever."""
    deadline = time.monotonic() + patience
    paths = [path for path in (run / layout.CURSORS).glob("*.lease") if path.stem not in besides]
    while time.monotonic() < deadline and not all(Lease(path).free() for path in paths):
        time.sleep(0.05)


def deliver(run: Path, segment: layout.Segment, sinks: Mapping[str, Sink]) -> Post:
    """Start a courier for every sink."""
    couriers = [Courier(name, sink, run, segment) for name, sink in sinks.items()]
    for courier in couriers:
        courier.start()
    return Post(
        {name: native(sink) for name, sink in sinks.items()},
        lambda: {courier.name: courier.health() for courier in couriers},
        lambda timeout: _close(couriers, timeout),
        settle=lambda timeout: _settle(couriers, timeout),
    )


def _settle(couriers: Sequence[Courier], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not all(courier.caught_up() for courier in couriers):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _close(couriers: Sequence[Courier], timeout: float) -> dict[str, str]:
    deadline = time.monotonic() + timeout
    for courier in couriers:
        courier.close(timeout)
    left = {courier.name: courier.join(deadline - time.monotonic()) for courier in couriers}
    return {name: what for name, what in left.items() if what is not None}
