"""Statistics across ranks: a thread exchanges the rows of this rank with those of the others, in rounds.

Asynchronously, `log` leaves a written row in a queue, and the statistics of its step follow as a second record.
Synchronously, `log` waits until its row has them. Evaluations and routers never wait: many scripts make them on one
rank while the others stand still. A missing rank costs one deadline on the thread (synchronously, one in `log`, too)
and a recorded gap.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from typing import cast

from chiplog.core.background import forks
from chiplog.core.background.wakeup import WakeUp
from chiplog.core.records import Eval, Record, Row, Step
from chiplog.core.values.media import Media
from chiplog.metrics.moe import Router
from chiplog.metrics.ranks.moe_routers import flat
from chiplog.metrics.ranks.step_gather import Topic
from chiplog.metrics.ranks.stragglers import Facts
from chiplog.runtime.ranks.reduce_options import ReduceOptions, is_sent
from chiplog.runtime.ranks.rounds.group_rounds import GroupRounds, ShutdownFlags
from chiplog.runtime.ranks.rounds.hosts_and_devices import FactsByRank
from chiplog.runtime.ranks.rounds.round_lock import RoundLock
from chiplog.runtime.ranks.rounds.row_queue import RowQueue
from chiplog.runtime.ranks.rounds.sync_rows import SyncRows
from chiplog.runtime.ranks.rounds.thread import RoundThread
from chiplog.runtime.ranks.statistics_gaps import Gaps
from chiplog.runtime.ranks.statistics_writer import StatisticsRun, StatisticsWriter
from chiplog.runtime.ranks.transport.group import Group
from chiplog.runtime.ranks.transport.late_group import has_group

LINGER = 1.0  # s that a process stays so that rank 0 can receive from the others
CLOSING = 5.0  # s that the end of a run waits for the rows of the others
UNFORMED = 1.0  # s that it waits for ranks that have never joined


class Reduce:
    """Observes what a run writes; synchronously it is a stage, too. It never raises, and waits within its limits."""

    def __init__(self, group: Group, options: ReduceOptions, facts: Facts, *, main: int = 0) -> None:
        import numpy  # noqa: F401  for the arithmetic; here, because a thread that imports endangers forks

        self._group, self._options = group, options
        self._root = group.rank == 0
        self._main = group.rank == main  # the rank that keeps the run
        self._queue, self._facts = RowQueue(), FactsByRank(group.rank, facts)
        self._gaps = Gaps(options.deadline, main=self._main)
        self._writer = StatisticsWriter(options, self._facts.by_rank, main=self._main)
        self._shutdown, self._wakeup, lock = ShutdownFlags(), WakeUp(), RoundLock()
        self._rounds = GroupRounds(
            group, options, self._queue, self._facts, self._writer, self._gaps, self._shutdown, main=self._main
        )
        self._thread = RoundThread(self._rounds, lock, self._wakeup)
        self._sync_rows = SyncRows(self._rounds, lock, self._wakeup, main=self._main)
        self.counted = False  # whether the step of the next row is counted; set by the logger if rows are matched

    def __call__(self, row: Row, step: int | float) -> Row:
        """Synchronously: the row with its statistics, if this rank gets them."""
        return self._sync_rows(row, step, counted=self.counted)

    def on_record(self, record: Record) -> None:
        """Queue a record that has been written, unless it is one of statistics."""
        if type(record) is Step:
            if not self._options.sync and self._options.includes(record.step):
                self._rounds.enqueue(Topic.TRAIN, record.step, cast(Row, record.metrics))
        elif type(record) is Eval and is_sent(record.step):
            self._rounds.enqueue(Topic.EVAL, record.step, cast(Row, record.metrics))

    def on_media(self, name: str, media: Media, step: int | float) -> None:
        """Queue the counts of a router."""
        if isinstance(media, Router) and self._options.includes(step):
            self._rounds.enqueue(Topic.ROUTER, step, flat(name, media))

    def update_device(self, sample: Mapping[str, object]) -> None:
        """Keep from a device's sample what may explain a slow rank: its clocks, and why they are low."""
        self._facts.add_device(sample)

    def start(self, run: StatisticsRun) -> None:
        """Start the thread; synchronously, wait a moment until the group is complete."""
        self._writer.run = self._gaps.run = run
        if self._main:  # before any row, so that readers know that rows are of one rank
            run.event("ranks", statistics="sync" if self._options.sync else "async")
        run.on_record(self.on_record)
        run.engine.splitter.listeners.append(self.on_media)
        forks.watch(self)
        atexit.register(self._exit)
        self._thread.start()
        if self._options.sync:
            run.keep(self._sync_rows.report_wait)
        if self._options.sync and self.has_group:
            self._sync_rows.wait_for_group()

    def close(self, timeout: float = CLOSING) -> None:
        """Send what is left, and wait so many seconds at most for the rows of the others."""
        self._shutdown.closing = True
        self._wakeup.set()
        if self._thread.is_alive:
            was_formed = self._rounds.membership.was_formed
            self._shutdown.drained.wait(timeout if was_formed else min(timeout, UNFORMED))
        if self._root:
            self._stop()
            if self._queue and (reason := self._why_unsent()):
                self._gaps.record_unsent(len(self._queue), self._queue.oldest.step, reason)
            self._queue.clear()

    def abandon(self) -> None:
        """Leave the group instead of starting, so that the other ranks do not wait for this one."""
        try:
            self._group.close()
        except Exception:  # the group may be gone already
            pass

    @property
    def has_group(self) -> bool:
        """Whether a process group exists yet."""
        return has_group(self._group)

    @property
    def is_stage(self) -> bool:
        """Whether rows are returned with their statistics."""
        return self._options.sync

    @property
    def members(self) -> Sequence[int]:
        """The ranks of the current group; none while it is incomplete."""
        return self._rounds.membership.members

    def forked(self) -> None:
        self._shutdown.stopped = True

    def _why_unsent(self) -> str:
        """Why rows have no statistics at the end; empty if that is expected."""
        membership = self._rounds.membership
        if membership.was_formed:
            return "" if membership.is_last else "the group was incomplete at the end"
        # Many scripts start a run only on rank 0; statistics that were not requested are not missed there.
        return "not all ranks have called chiplog.init" if self._options.asked else ""

    def _exit(self) -> None:
        """At the end of the process: stay a moment for rank 0, which needs all ranks to receive from one of them."""
        if not self._shutdown.closing:  # the run is finished later, and the others should learn of it
            self.close(CLOSING if self._root else LINGER)
        self._shutdown.exiting = True
        self._wakeup.set()
        if not self._root and self._thread.is_alive and self._rounds.exchange is not None:
            self._shutdown.disconnected.wait(LINGER)
        self._stop()

    def _stop(self) -> None:
        self._shutdown.stopped = True
        self._wakeup.set()
        self._thread.join(1.0)
        atexit.unregister(self._exit)
