"""Synchronous statistics: `log` runs rounds on its own thread until its row has an answer, or the deadline passes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from chiplog.core import messages
from chiplog.core.background.wakeup import WakeUp
from chiplog.core.records import Row
from chiplog.metrics.ranks.row_matching import Positions
from chiplog.metrics.ranks.statistics import is_reduced
from chiplog.metrics.ranks.step_gather import RowRequest, Topic
from chiplog.runtime.ranks.rounds.group_rounds import GroupRounds, UnderWay, do_not_wait, rank_row
from chiplog.runtime.ranks.rounds.protocol import Outbox
from chiplog.runtime.ranks.rounds.round_lock import RoundLock
from chiplog.runtime.ranks.rounds.row_queue import QueuedRow
from chiplog.runtime.ranks.transport.group import GroupBroken
from chiplog.runtime.ranks.transport.late_group import has_group

AHEAD = 256  # rows that a rank may be ahead of rank 0
BACKGROUND = "chiplog-background"  # the thread that logs values from a device; it must not wait
FORMING = 2.0  # s that the start of a run waits for the other ranks
STARTING = 60.0  # s that it waits for rank 0 while that opens its sinks; W&B and MLflow take seconds to import
LONG_WAIT = 2.0  # s after which a row that waits for other ranks is reported
LOCAL_WAIT = 1.0  # s to wait for a row with names that no other rank has logged
LOCAL_WAITS = 3  # such waits at most


class SyncRows:
    """Adds statistics to rows, on the ranks that receive them; on the others it sends the row and returns it."""

    def __init__(self, rounds: GroupRounds, lock: RoundLock, wakeup: WakeUp, *, main: bool) -> None:
        self._rounds, self._lock, self._wakeup, self._main = rounds, lock, wakeup, main
        self._options, self._group, self._shutdown = rounds.options, rounds.group, rounds.shutdown
        self._matcher = rounds.gathers.matcher
        self._positions = Positions()
        self._waits_for_group = True  # before the first row
        self._first = True
        self._local_names: set[str] = set()  # that only this rank logs, as far as waiting has shown
        self._local_waits = 0
        self._waiting: tuple[float, int | float] | None = None  # since when a row waits, and its step

    def __call__(self, row: Row, step: int | float, *, counted: bool) -> Row:
        """The row with its statistics, if this rank gets them and they arrive in time."""
        rounds = self._rounds
        position = self._positions.next(filter(is_reduced, row)) if self._matcher is not None and counted else None
        if self._first:
            self._first = False
            if rounds.exchange is None and not rounds.membership.was_formed:
                self._expect_group()
        if rounds.exchange is None and self._is_last:
            return self._look_up(row, step, position)
        if rounds.exchange is None and not rounds.membership.was_formed and not rounds.receives:
            if self._options.includes(step):  # rank 0 has not started, and needs this row when it does
                rounds.enqueue(Topic.TRAIN, step, row, position)
            return row
        if rounds.exchange is None or rounds.gaps.open is not None:  # the group is incomplete
            rounds.newest = step
            return row
        if self._shutdown.stopped or not self._options.includes(step):
            return row
        if not rounds.receives or threading.current_thread().name == BACKGROUND:
            rounds.enqueue(Topic.TRAIN, step, row, position)
            self._start_round()
            if len(rounds.queue) > AHEAD:
                self._wait_for_root()
            return row
        return self._wait_for_statistics(row, step, position)

    def wait_for_group(self) -> None:
        """Wait a moment until all ranks have joined."""
        self._waits_for_group = False
        started = time.monotonic()
        until = started + min(FORMING, self._options.deadline)
        while self._rounds.exchange is None and not self._shutdown.stopped:
            if time.monotonic() > until and not self._is_root_starting(started):
                break
            time.sleep(0.005)
        if self._rounds.exchange is None and self._main and not self._shutdown.stopped:
            messages.say(
                f"not all {self._group.world} ranks have started this run within {FORMING:g} s: its rows have no "
                "statistics across ranks until they do"
            )

    def _is_root_starting(self, since: float) -> bool:
        """Whether rank 0 is on its way, and worth waiting for: its first row waits for the others in turn."""
        try:
            return self._group.rank != 0 and time.monotonic() < since + STARTING and self._group.is_starting()
        except Exception:  # the store has gone with the process that held it
            return False

    def _expect_group(self) -> None:
        """Before the first row: give the ranks a moment to join; if there is still no process group, give up."""
        if not has_group(self._group):
            self._shutdown.stopped = True
            self._wakeup.set()
        elif self._waits_for_group:
            self.wait_for_group()

    def _start_round(self) -> None:
        """Start a round now if none is under way, because rank 0 may wait for it; it completes by itself."""
        if not self._lock.acquire():
            self._wakeup.set()
            return
        rounds, completes = self._rounds, False
        try:
            if rounds.exchange is not None:
                rounds.pack()
                if rounds.exchange.under_way:
                    rounds.finish_round(do_not_wait)
                rounds.exchange.begin()
                completes = self._group.waits and not rounds.exchange.agreeing
        except UnderWay:
            rounds.timing.collide()
        except GroupBroken as error:
            rounds.break_up(str(error))
        finally:
            self._lock.release()
        if not completes:
            self._wakeup.set()

    def _wait_for_statistics(self, row: Row, step: int | float, position: int | None) -> Row:
        """Run rounds until the row has its statistics."""
        started = time.monotonic()
        self._waiting = started, step
        try:
            return self._wait_in_rounds(row, step, position, started)
        finally:
            self._waiting = None

    def report_wait(self) -> float:
        """A background task: report once what a `log` call waits for."""
        if (waiting := self._waiting) is not None and time.monotonic() - waiting[0] > LONG_WAIT:
            others = ", ".join(str(rank) for rank in self._rounds.membership.members if rank != self._group.rank)
            messages.once(
                f"sync wait {id(self)}",
                f"`log` at step {waiting[1]} is waiting up to {self._options.deadline:g} s for "
                f"{f'ranks {others}' if others else 'absent ranks'} (reduce='sync'); reduce='async' does not wait",
            )
        return LONG_WAIT / 2

    def _wait_in_rounds(self, row: Row, step: int | float, position: int | None, started: float) -> Row:
        if not self._lock.acquire(self._options.deadline):
            return row  # in a signal handler, or the thread is in a round that misses a rank
        rounds, request = self._rounds, None
        try:
            if rounds.exchange is None:  # the group broke up while this waited for the lock
                return self._matched(row, step, position)
            rounds.enqueue(Topic.TRAIN, step, row, position)
            rounds.pack()
            gather = rounds.gathers.train
            request = gather.request(self._group.rank, step)
            while request and rounds.exchange is not None and not self._shutdown.stopped:
                waited = time.monotonic() - started
                if self._is_local(request.names, waited):
                    break  # its statistics, if any, follow later
                if request.is_complete(waited):
                    rounds.gaps.record_absent(gather.attendance.absent, step)
                    world = len(rounds.membership.members)
                    return {**row, **rounds.writer.statistics(Topic.TRAIN, request.gathered(), world)}
                if not rounds.exchange.under_way:
                    rounds.exchange.begin()
                rounds.finish_round(None if self._group.waits else self._pause)
        except (GroupBroken, UnderWay) as error:
            rounds.break_up(str(error))
            return self._with_statistics(row, request) if self._is_last else row
        finally:
            self._lock.release()
        return row

    def _is_local(self, names: Sequence[str], waited: float) -> bool:
        """Whether a row is this rank's own: no other rank has logged any of its names, and waiting has not helped.

        Such rows are waited for shortly, and only a few times. Before another rank has logged anything at all, the row
        may be the first one of training, and has the usual time.
        """
        remote = self._rounds.writer.remote_names
        if not remote or not remote.isdisjoint(names):
            return False
        if not self._local_names.issuperset(names) and self._local_waits < LOCAL_WAITS:
            if waited <= min(LOCAL_WAIT, self._options.deadline):
                return False
            self._local_waits += 1
            self._local_names.update(names)
        return True

    @property
    def _is_last(self) -> bool:
        """Whether the other ranks have finished, and this one has the rows that they left."""
        rounds = self._rounds
        return self._matcher is not None and rounds.receives and rounds.membership.is_last

    def _look_up(self, row: Row, step: int | float, position: int | None) -> Row:
        """The row with the statistics of what ranks logged that have finished since."""
        if not self._options.includes(step) or not self._lock.acquire(self._options.deadline):
            return row
        try:
            return self._matched(row, step, position)
        finally:
            self._lock.release()

    def _matched(self, row: Row, step: int | float, position: int | None) -> Row:
        """The same, with the lock held."""
        if self._matcher is None or not self._is_last:
            self._rounds.newest = step
            return row
        _, values = Outbox(self._options.counters).values(row)
        queued = QueuedRow(Topic.TRAIN, step, row, time.time_ns(), position)
        self._matcher.add(self._group.rank, rank_row(queued, values), time.monotonic(), step)
        return self._with_statistics(row, self._matcher.request(self._group.rank, step))

    def _with_statistics(self, row: Row, request: RowRequest | None) -> Row:
        """The row with the statistics of what has arrived for it, if another rank has logged it."""
        if request is None or len((gathered := request.gathered()).rows) < 2:
            return row
        return {**row, **self._rounds.writer.statistics(Topic.TRAIN, gathered, self._group.world)}

    def _wait_for_root(self) -> None:
        """Wait for rank 0, which is far behind: rows that do not fit into the queue would be lost."""
        rounds, until = self._rounds, time.monotonic() + self._options.deadline
        while len(rounds.queue) > AHEAD and rounds.exchange is not None and time.monotonic() < until:
            time.sleep(0.0005)

    def _pause(self) -> None:
        if self._shutdown.stopped:
            raise UnderWay("the run has ended")
        time.sleep(self._rounds.round_poll(on_thread=False))
