"""Statistics across ranks: a stage that hands rows to a thread, which exchanges them in rounds with the other ranks.

The thread alone touches the group. Asynchronously, `log` leaves the row in a queue and goes on; what all ranks have
said of a step is written later, as a second record of it. Synchronously, `log` waits until the thread has an answer.
A rank that does not come costs a deadline on the thread (synchronously, one on `log` too) and a gap that is marked.
"""

from __future__ import annotations

import atexit
import threading
import time
from _queue import Empty, SimpleQueue
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chiplog.core import forks, notes
from chiplog.core.records import Row
from chiplog.metrics.tally import Said, Tally
from chiplog.runtime.groups import Broken, Finish, Group
from chiplog.runtime.plan import Plan
from chiplog.runtime.report import Book, Report
from chiplog.runtime.wire import HEAD, Bye, Facts, Inbox, Outbox

TICK = 0.25  # s between two rounds, where nobody waits for one
GRACE = 0.01  # s after which a rank joins a round that somebody may wait for, though it has nothing to say
AHEAD = 256  # rows that a rank may be ahead of rank 0, synchronously
KEEPER = "chiplog-keeper"  # the thread that brings values from a device; it waits for nobody
LINGER = 1.0  # s that a process stays for rank 0 to hear the others
UNFORMED = 1.0  # s that the end of a run waits for ranks that have not come at all
QUEUE = 10_000  # rows that may wait while the group is not whole
ROOM = 1024  # bytes of a chunk, at first
SMALLEST, LARGEST, AT_ONCE = 512, 1 << 20, 64 << 20  # bytes of a chunk, and of all chunks of a round
SCHEDULE = 64  # rounds between two in which the room is agreed on, after the first few
DEVICE = ("clock", "throttle", "temperature", "power")  # what is told of a device
FACTS = 10.0  # s between two reports of what a rank is


class Reduce:
    """A stage. `start` gives it the run to write to; from then on it never raises and never waits beyond its plan."""

    def __init__(self, group: Group, plan: Plan, facts: Mapping[str, Any]) -> None:
        import numpy  # noqa: F401  for the arithmetic; here, since a thread that imports endangers forks

        self._group, self._plan = group, plan
        self._root = group.rank == 0
        self._hears = self._root or plan.everyone
        self._queue: deque[_Row] = deque(maxlen=QUEUE)
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._lock = threading.Lock()  # who is in a round: the thread, or a caller who waits for it
        self._holder = 0
        self._members: Sequence[int] | None = None
        self._facts: dict[int, dict[str, Any]] = {group.rank: dict(facts)}
        self._told: dict[str, Any] = {}
        self._report = Report(plan, self._facts, main=self._root)
        self._drained, self._apart = threading.Event(), threading.Event()
        self._closing = self._stopped = self._leaving = False
        self._formed = False
        self._floor: int | float | None = None
        self._pause = 0.005  # s until it is asked again whether the group is whole
        self._newest: int | float = 0
        self._thread = threading.Thread(target=self._serve, name="chiplog-ranks", daemon=True)
        self._begin(())

    # -- on the caller's thread ------------------------------------------------------------------------------------

    def __call__(self, row: Row, step: int | float) -> Row:
        if self._stopped or (self._plan.every > 1 and step % self._plan.every):
            return row
        if not self._plan.sync:
            if len(self._queue) >= QUEUE:
                notes.once(
                    "ranks behind", f"more than {QUEUE:,} rows wait for the other ranks; the oldest are given up"
                )
            self._queue.append(_Row(step, row, time.time_ns()))
            return row
        if self._members is None or self._report.gap is not None:  # not whole just now
            self._newest = step
            return row
        if not self._hears or threading.current_thread().name == KEEPER:
            self._queue.append(_Row(step, row, time.time_ns()))
            self._send()
            if len(self._queue) > AHEAD:
                self._hold_back()
            return row
        return self._ask(row, step)

    def _send(self) -> None:
        """Begin a round here and now, where none is under way: rank 0 may wait for it. The thread completes it."""
        if self._lock.acquire(blocking=False):
            self._holder = threading.get_ident()
            try:
                if self._members is not None and self._under_way is None:
                    self._pack()
                    self._begin_round()
            except Broken as error:
                self._break(str(error))
            finally:
                self._holder = 0
                self._lock.release()
        self._wake()

    def _ask(self, row: Row, step: int | float) -> Row:
        """The row with the statistics of its step: the rounds that takes are done here and now."""
        if self._holder == threading.get_ident() or not self._lock.acquire(timeout=self._plan.deadline):
            return row  # a signal handler in between, or the thread is in a round to which a rank does not come
        self._holder = threading.get_ident()
        try:
            self._queue.append(_Row(step, row, time.time_ns()))
            self._pack()
            count = len(self._tally.of(step).rows.get(self._group.rank, ()))
            while self._members is not None and not self._stopped:
                if self._tally.has(step, count, time.monotonic()):
                    return {**row, **self._report.statistics(self._tally.of(step), len(self._inboxes))}
                self._round(wait=self._group.waits)
        except (Broken, _Stopped) as error:
            self._break(str(error))
        finally:
            self._holder = 0
            self._lock.release()
        return row

    def _hold_back(self) -> None:
        """Wait for rank 0, which is far behind: what does not fit into the queue would be lost."""
        until = time.monotonic() + self._plan.deadline
        while len(self._queue) > AHEAD and self._members is not None and time.monotonic() < until:
            time.sleep(0.0005)

    def _wake(self) -> None:
        if self._bell.empty():
            self._bell.put(None)

    def start(self, book: Book) -> None:
        """Begin; synchronously, wait until the group is whole, but not for longer than the deadline."""
        self._report.book = book
        forks.watch(self)
        atexit.register(self._leave)
        self._thread.start()
        until = time.monotonic() + self._plan.deadline
        while self._plan.sync and self._members is None and time.monotonic() < until:
            time.sleep(0.005)

    def close(self, timeout: float = 5.0) -> None:
        """Send what is left and wait for what the others have to say, but no longer than that."""
        self._closing = True
        self._wake()
        if self._thread.is_alive():
            self._drained.wait(timeout if self._formed else min(timeout, UNFORMED))
        if self._root:
            self._stop()
            if self._queue:
                why = "it was not whole at the end" if self._formed else "not all ranks have called chiplog.init"
                self._report.account(len(self._queue), self._queue[0].step, why)
                self._queue.clear()

    def tell_device(self, data: Mapping[str, Any]) -> None:
        """Take from a sample of a device what may explain that a rank is slow: its clocks, and why they are low."""
        told = {name: value for name, value in data.items() if any(word in name for word in DEVICE)}
        mine = self._facts[self._group.rank]
        mine["devices"] = {**mine.get("devices", {}), str(data.get("id", 0)): told}

    def forked(self) -> None:
        self._stopped = True

    def _leave(self) -> None:
        """At the end of the process: stay a moment for rank 0, which needs all ranks to hear one of them."""
        self._leaving = True
        self._wake()
        if not self._root and self._thread.is_alive() and self._members is not None:
            self._apart.wait(LINGER)
        self._stop()

    def _stop(self) -> None:
        self._stopped = True
        self._wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(1.0)
        atexit.unregister(self._leave)

    # -- on the thread ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._stopped:
            with self._lock:
                self._holder = threading.get_ident()
                pause = self._work()
                self._holder = 0
            self._ring(pause)
        if self._closing:  # what was not completed in time is worth writing too
            for gathered in self._tally.rest():
                self._report.write(gathered, len(self._inboxes))
        self._drained.set()
        try:
            self._group.close()
        except Exception:  # it goes anyway
            pass

    def _work(self) -> float:
        """Do what is due; gives the seconds until something is again."""
        try:
            if self._members is None:
                self._shed()
                if not self._join():
                    longest = 0.5 if self._formed else min(0.5, max(0.02, 0.0005 * self._group.world))
                    self._pause = min(2 * self._pause, longest)
                    return self._pause
            self._pack()
            self._settle()
            due = self._due - time.monotonic()
            if due > 0 and not self._urgent() and self._under_way is None:
                return due
            self._round()
            self._settle()
            return 0.0
        except _Stopped:
            return 0.0
        except Exception as error:  # the group is broken, or the store has gone with the rank that held it
            self._break(str(error))
            return 0.0 if isinstance(error, Broken) else 1.0

    def _join(self) -> bool:
        """Whether the group is whole."""
        members = self._group.form()
        if members is None:
            if self._closing and self._formed:
                self._drained.set()
            return False
        self._begin(members)
        self._floor = self._newest if self._formed else None
        self._formed = True
        self._report.back(self._newest)
        return True

    def _begin(self, members: Sequence[int]) -> None:
        """Everything that belongs to one group, anew."""
        self._tally = Tally(members, self._plan.deadline)
        self._outbox = Outbox(self._plan.counters)
        names: dict[int, tuple[str, ...]] = {}
        self._inboxes = {rank: Inbox(names) for rank in members}
        self._rounds = 0
        self._under_way: _Round | None = None
        self._room = ROOM
        self._due = self._facts_due = 0.0
        self._pause = 0.005
        self._told = {}
        self._said_bye = False
        self._gone: set[int] = set()
        self._members = members or None

    def _pace(self) -> float:
        """Seconds from one round to the next, where nobody waits."""
        hurried = self._leaving or (self._closing and not self._drained.is_set())
        return GRACE if hurried or (self._plan.sync and not self._root) else TICK

    def _urgent(self) -> bool:
        return self._outbox.left > (0 if self._plan.sync else self._room)

    def _pack(self) -> None:
        """Take the rows that have come."""
        rank, now = self._group.rank, time.monotonic()
        closing = self._closing  # asked first: what was logged before it is in the queue by now
        if now >= self._facts_due and not self._root and self._told != self._facts[rank]:
            self._facts_due = now + FACTS
            self._told = dict(self._facts[rank])
            self._outbox.tell(self._told)
        while self._queue:
            step, row, wall = self._queue.popleft()
            number, values = self._outbox.values(row)
            said = Said(step, values, wall)
            self._newest = step
            if not self._root or self._plan.everyone:
                self._outbox.add(number, said)
            if self._hears and values.names:
                self._tally.add(rank, said, now)
        if closing and not self._said_bye:
            self._said_bye = True
            self._outbox.leave()
            self._tally.leave(rank)

    def _begin_round(self) -> _Round:
        # Now and then all see what all still have to send, and so agree on the room without a word.
        agree = self._rounds % SCHEDULE == 0 or self._rounds & (self._rounds - 1) == 0
        chunk = self._outbox.chunk(self._room)
        self._under_way = _Round(self._group.exchange(chunk, agree or self._plan.everyone), agree, time.monotonic())
        return self._under_way

    def _round(self, wait: bool = False) -> None:
        finish, agree, began = self._under_way or self._begin_round()

        def pause() -> None:
            taken = time.monotonic() - began
            if self._stopped:
                raise _Stopped
            if self._report.gap is None and taken > self._plan.deadline:
                left = f"; finished: {', '.join(map(str, sorted(self._gone)[:8]))}" if self._gone else ""
                self._mark(f"not all ranks came within {self._plan.deadline:g} s{left}")
            time.sleep(max(20e-6, min(0.1 * taken, 0.002 if self._plan.sync else 0.02)))

        chunks = finish(None if wait else pause)
        self._under_way = None
        self._due = time.monotonic() + self._pace()
        self._rounds += 1
        self._report.back(self._newest)
        if chunks is not None:
            assert self._members is not None
            if self._hears:
                self._hear(dict(zip(self._members, chunks, strict=True)))
            if agree or self._plan.everyone:
                self._agree(chunks)
        if self._said_bye and not self._outbox.left and not self._root:
            self._drained.set()

    def _hear(self, chunks: Mapping[int, bytes]) -> None:
        now = time.monotonic()
        for rank, chunk in chunks.items():
            if rank == self._group.rank:
                continue
            for frame in self._inboxes[rank].feed(chunk):
                if isinstance(frame, Said):
                    if self._floor is None or frame.step > self._floor:  # what was logged before we were whole again
                        self._tally.add(rank, frame, now)
                elif isinstance(frame, Facts):
                    self._facts[rank] = frame.facts
                elif isinstance(frame, Bye):
                    self._gone.add(rank)
                    self._tally.leave(rank)
                    self._group.leave(rank)
        self._tally.turn()

    def _agree(self, chunks: Sequence[bytes]) -> None:
        need = HEAD.size + max(sum(HEAD.unpack_from(chunk)) for chunk in chunks)
        most = max(4096, min(LARGEST, AT_ONCE // len(chunks)))
        fitting = min(max(SMALLEST, 1 << (need - 1).bit_length()), most)
        if fitting > self._room or fitting <= self._room // 4:
            self._room = fitting

    def _settle(self) -> None:
        """Write what is complete."""
        now = time.monotonic()
        if not self._hears:
            return
        for gathered in self._tally.ready(now):
            self._report.write(gathered, len(self._inboxes))
        if self._said_bye and (not len(self._tally) or len(self._gone) + 1 >= len(self._inboxes)):
            for gathered in self._tally.rest():
                self._report.write(gathered, len(self._inboxes))
            self._drained.set()

    # -- when a rank is missing ------------------------------------------------------------------------------------

    def _break(self, reason: str) -> None:
        """The group is gone: what waits is given up, and the gap is marked."""
        if self._root and self._closing:
            for gathered in self._tally.rest():
                self._report.write(gathered, len(self._inboxes))
            self._drained.set()
        elif not self._all_gone():
            self._mark(reason)
        self._begin(())
        self._apart.set()
        if not self._closing:
            self._shed()

    def _all_gone(self) -> bool:
        return bool(self._gone) and len(self._gone) + 1 >= len(self._inboxes)

    def _mark(self, reason: str) -> None:
        first = self._newest if self._plan.sync else self._tally.oldest(self._newest)
        self._report.mark(reason, first)

    def _shed(self) -> None:
        """What is logged while the group is not whole is not waited for; before it ever was, it is."""
        while self._formed and self._queue:
            self._newest = self._queue.popleft().step

    def _ring(self, seconds: float) -> None:
        if seconds > 0:
            try:
                self._bell.get(timeout=seconds)
            except Empty:
                pass


class _Row(NamedTuple):
    step: int | float
    row: Row
    time: int


class _Round(NamedTuple):
    """A round that has begun."""

    finish: Finish
    agree: bool  # whether everyone hears everyone
    began: float


class _Stopped(Exception):
    """The run has ended."""
