"""Delivery: each sink reads the journal on a thread of its own, from its own position.

There is no queue between `log` and a sink: the journal is the queue, and its newest part is in the page cache. So a
sink may be slow, absent or broken without anybody else noticing; it goes on where it was. A sink that keeps files has
its position and its state stored together in `cursors/`, and is put back to that state before a batch is tried again,
so each record reaches its files exactly once, also after a crash. A lease keeps two deliverers of one run apart.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chiplog.core import notes
from chiplog.core.files import make_dir
from chiplog.core.protocols import Sink
from chiplog.core.records import AnyRecord
from chiplog.core.run import Post
from chiplog.sinks.lease import Lease
from chiplog.store import layout, lines
from chiplog.store.manifest import write_whole
from chiplog.store.tail import Positions, Tail

POLL = 0.25  # s between looks at the journal
IDLE = 0.5  # s without a record before a sink is told so, with an empty batch
SAVE = 1.0  # s between writes of a cursor
LAST_TRIES = 5  # in a row, of a sink that raises when the run has ended
BACK_OFF = (0.5, 30.0)  # s: first and longest pause after an error


class Cursor(msgspec.Struct):
    """How far a sink has come, and what it needs to go on from there."""

    positions: Positions = {}
    state: dict[str, Any] = {}


def load(path: Path) -> Cursor:
    """A stored cursor; raises `ValueError` for one whose bytes are not those that were written."""
    data = path.read_bytes()
    if not lines.is_whole(data):
        raise ValueError("it does not match its CRC")
    try:
        return msgspec.json.decode(data, type=Cursor)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no cursor: {error}") from None


class Courier:
    """Brings one sink everything that is in the journal, and remembers how far it has come."""

    def __init__(self, name: str, sink: Sink, run: Path, segment: layout.Segment) -> None:
        self.name, self.sink = name, sink
        self._run = run
        self._keeps = hasattr(sink, "state") and hasattr(sink, "restore")
        self._path = run / layout.CURSORS / f"{layout.slug(name)}.json"
        self._lease = Lease(self._path.with_suffix(".lease")) if self._keeps else None
        self._first = segment
        self._tail: Tail | None = None
        self._batch: list[AnyRecord] = []  # read, and not yet accepted
        self._saved = Cursor()
        self._saved_at = 0.0
        self._closing = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"chiplog-{name}", daemon=True)
        self._heard = 0.0  # when the last batch came; 0 when the sink has been told that nothing more has
        self.state = "ok"
        self.delivered = 0
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
            "lag_bytes": self._tail.lag() if self._tail else 0,
            "errors": self.errors,
            "last_error": self.last_error,
        }

    def close(self) -> None:
        """Ask the courier to deliver what is left and end; does not wait."""
        self._failures = 0
        self._closing = True
        self._wake.set()

    def join(self, timeout: float) -> str | None:
        """Wait for the end; what is undelivered, if anything is."""
        self._thread.join(max(0.0, timeout))
        if self.state == "closed":
            return None
        self._over = True  # if it wakes up again, it ends
        lag = self._tail.lag() if self._tail else 0
        why = self.last_error or "it did not answer in time"
        return f"{lag:,} bytes of journal are not delivered ({why})" if lag else f"it did not close ({why})"

    def _work(self) -> None:
        pause = 0.0
        while True:
            if pause:
                self._wake.wait(pause)
                self._wake.clear()
            try:
                pause = self._turn()
            except BaseException as error:  # a sink may raise anything, SystemExit too; it stays its own affair
                pause = self._trouble(error)
            if self.state == "closed" or self._over:
                return

    def _turn(self) -> float:
        """Deliver a batch; the seconds to wait before the next turn."""
        if self._lease is not None and not self._lease.hold():
            self.state = self.last_error = "another process delivers to it"
            self._over = self._closing
            return 5.0
        if self._tail is None:
            self._tail = self._begin()
        batch = self._batch = self._batch or self._tail.read()
        now = time.monotonic()
        if batch or (self._heard and (self._closing or now - self._heard > IDLE)):
            self.sink.write(batch)
            self._batch = []
            self._heard = now if batch else 0.0
            self.delivered += len(batch)
            self.state, self.last_error = "ok", ""
            self._failures = 0
        if self._closing and not batch:
            self.sink.close()
            self._save()
            if self._lease is not None:
                self._lease.release()
            self.state = "closed"
            return 0.0
        if time.monotonic() - self._saved_at > SAVE:
            self._save()
        return 0.0 if self._closing or self._tail.more else POLL

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
            self._store(Cursor({}, {}))
        self.sink.restore(self._saved.state)  # type: ignore[attr-defined]
        return Tail(self._run, rank=rank, positions=self._saved.positions)

    def _save(self) -> None:
        self._saved_at = time.monotonic()
        if self._tail is None or not self._keeps:
            return
        cursor = Cursor(self._tail.positions(), self.sink.state())  # type: ignore[attr-defined]
        if cursor != self._saved:
            self._store(cursor)

    def _store(self, cursor: Cursor) -> None:
        make_dir(self._path.parent)
        write_whole(self._path, lines.sealed(msgspec.json.encode(cursor)))
        self._saved = cursor

    def _trouble(self, error: BaseException) -> float:
        self.errors += 1
        self._failures += 1
        self._over = self._over or (self._closing and self._failures >= LAST_TRIES)
        self.state = "failing"
        self.last_error = f"{type(error).__name__}: {error}"
        notes.once(
            f"sink {self.name} {os.getpid()} {id(self)}",
            f"sink {self.name!r} fails ({self.last_error}); it is tried again, and the journal has everything",
        )
        self._go_back()
        first, longest = BACK_OFF
        return min(longest, first * 2 ** min(self._failures - 1, 10)) if not self._closing else first

    def _go_back(self) -> None:
        """Undo what the sink did since its state was stored, so that those batches can be tried again."""
        if self._keeps:
            self._batch = []
            self._tail = None  # so that the next turn begins with the stored cursor


def deliver(run: Path, segment: layout.Segment, sinks: Mapping[str, Sink]) -> Post:
    """Start a courier for every sink."""
    couriers = [Courier(name, sink, run, segment) for name, sink in sinks.items()]
    for courier in couriers:
        courier.start()
    return Post(
        sinks,
        lambda: {courier.name: courier.health() for courier in couriers},
        lambda timeout: _close(couriers, timeout),
    )


def _close(couriers: Sequence[Courier], timeout: float) -> dict[str, str]:
    deadline = time.monotonic() + timeout
    for courier in couriers:
        courier.close()
    left = {courier.name: courier.join(deadline - time.monotonic()) for courier in couriers}
    return {name: what for name, what in left.items() if what is not None}
