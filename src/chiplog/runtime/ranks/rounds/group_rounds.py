"""The rounds of the current group: rows out of the queue, messages of other ranks into the gathers, and into the run.

All but `enqueue` is called with the round lock held, by the thread of the ranks or by a caller that waits for its row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from chiplog.core.records import Row
from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import GatheredStep, RankRow, Topic
from chiplog.runtime.ranks.reduce_options import ReduceOptions
from chiplog.runtime.ranks.rounds.exchange import Exchange
from chiplog.runtime.ranks.rounds.gathers import Gathers
from chiplog.runtime.ranks.rounds.membership import Membership
from chiplog.runtime.ranks.rounds.protocol import Farewell, Message, RankFacts
from chiplog.runtime.ranks.rounds.rank_facts import FactsByRank
from chiplog.runtime.ranks.rounds.round_timing import RoundTiming
from chiplog.runtime.ranks.rounds.row_queue import QueuedRow, RowQueue
from chiplog.runtime.ranks.rounds.shutdown_flags import ShutdownFlags
from chiplog.runtime.ranks.statistics_gaps import Gaps
from chiplog.runtime.ranks.statistics_writer import StatisticsWriter
from chiplog.runtime.ranks.transport.group import Group, Pause


class UnderWay(Exception):
    """A round is not over, and nobody waits for it."""


class GroupRounds:
    """What this rank sends and receives; `exchange` is None while the group is incomplete."""

    def __init__(
        self,
        group: Group,
        options: ReduceOptions,
        queue: RowQueue,
        facts: FactsByRank,
        writer: StatisticsWriter,
        gaps: Gaps,
        shutdown: ShutdownFlags,
        *,
        main: bool,
    ) -> None:
        self.group, self.options = group, options
        self.queue, self.writer, self.gaps, self.shutdown = queue, writer, gaps, shutdown
        self._facts, self._main = facts, main
        self._root = group.rank == 0
        self.receives = self._root or options.everyone
        self.membership = Membership(group)
        self.gathers = Gathers(group.rank, group.world, options)
        self.timing = RoundTiming(sync=options.sync, root=self._root, world=group.world)
        self.newest: int | float = 0  # the step of this rank's newest training row
        self.exchange: Exchange | None = None
        self._sent_farewell = False

    def enqueue(self, topic: Topic, step: int | float, values: Row | Values, position: int | None = None) -> None:
        """Leave a row in the queue, on any thread; not one of the statistics themselves."""
        if not self.shutdown.stopped and not self.writer.is_writing:
            self.writer.main_logs = True
            self.queue.append(QueuedRow(topic, step, values, time.time_ns(), position))

    def join(self) -> Exchange | None:
        """Form the group, if all ranks are ready."""
        members = self.group.form()
        if not members:
            self.shutdown.stopped = self.shutdown.stopped or members is not None
            if self.shutdown.closing and self.membership.was_formed:
                self.shutdown.drained.set()
            return None
        self.gathers.form(members, self.newest if self.membership.was_formed else None)
        self._reset()
        self.membership.form(members)
        options = self.options
        self.exchange = Exchange(
            self.group,
            members,
            everyone=options.everyone,
            counters=options.counters,
            names=self.writer.remote_names,
        )  # last: callers that see it may use everything else
        self.gaps.end(self.newest)
        return self.exchange

    def pack(self) -> None:
        """Move the queued rows to the outbox and into the gathers; at the end of the run, add a farewell."""
        assert self.exchange is not None
        outbox, now = self.exchange.outbox, time.monotonic()
        closing = self.shutdown.closing  # read first: rows logged before it was set are in the queue by now
        if not self._root and (facts := self._facts.unsent(now)) is not None:
            outbox.add_facts(facts)
        if self.gaps.open is not None:  # a round waits for a rank, perhaps until the end
            self.discard_queue()
        while self.queue:
            queued = self.queue.pop()
            values = queued.values
            number, values = outbox.number(values) if isinstance(values, Values) else outbox.values(values)
            row = rank_row(queued, values)
            if queued.topic is Topic.TRAIN:
                self.newest = queued.step
            if not self._root or self.options.everyone:
                outbox.add(number, row)
            if self.receives and values.names:
                self.gathers.add_own(row, now, queued.step)
        if closing and not self._sent_farewell:
            self._sent_farewell = True
            outbox.add_farewell()
            self.gathers.finish(self.group.rank)

    def finish_round(self, pause: Pause | None) -> None:
        """Complete the round under way, and receive its messages; raises what the pause raises."""
        exchange = self.exchange
        assert exchange is not None
        messages = exchange.finish(pause)
        now = time.monotonic()
        if exchange.idle and self.options.everyone and not self._root:
            self.timing.learn(row_waited=bool(exchange.outbox.left or self.queue), took=now - exchange.began)
        self.timing.schedule(now, hurry=self._is_urgent())
        self.gaps.end(self.newest)
        if self.receives:
            for rank, message in messages:
                self._receive(rank, message, now)
            self.gathers.end_round()
        if self._sent_farewell and not exchange.outbox.left and not self._root and not self._main:
            self.shutdown.drained.set()

    def round_poll(self, *, on_thread: bool) -> float:
        """Seconds until the round under way is polled again. A round that misses the deadline is a gap."""
        assert self.exchange is not None
        now = time.monotonic()
        elapsed = now - self.exchange.began
        if self.gaps.open is None and elapsed > self.options.deadline:
            finished = self.membership.finished_here
            self._start_gap(
                f"not all ranks came within {self.options.deadline:g} s" + (finished and f"; finished: {finished}")
            )
        return self.timing.round_poll(now, elapsed, idle=on_thread and not self.exchange.outbox.left)

    def write_complete(self) -> None:
        """Write the statistics of the steps that are complete."""
        if not self.receives:
            return
        self._write(self.gathers.ready(time.monotonic()))
        if self.options.sync and not self.shutdown.closing:
            self.gaps.record_absent(self.gathers.train.attendance.absent, self.newest)
        if self._sent_farewell and (self.membership.others_left_group or self.gathers.is_empty):
            self.write_rest()
            self.shutdown.drained.set()

    def write_rest(self) -> None:
        """Write what has arrived of the remaining steps."""
        self._write(self.gathers.rest())

    def break_up(self, reason: str) -> None:
        """The group is gone: drop what waits, and record the gap."""
        if (self._root or self._main) and self.shutdown.closing:
            self.write_rest()
            self.shutdown.drained.set()
        else:
            for rank in self.membership.unnoticed():
                self._finish(rank)
            if not self.membership.others_left_group:
                finished = self.membership.finished_here
                self._start_gap(f"finished: rank {finished}" if finished else reason, quiet=bool(finished))
        self.gathers.form(())
        self._reset()
        self.membership.form(())
        self.exchange = None
        self.shutdown.disconnected.set()
        if not self.shutdown.closing:
            self.discard_queue()

    def discard_queue(self) -> None:
        """Drop rows logged while the group is incomplete; rows logged before it was first formed wait."""
        while self.membership.was_formed and self.queue:
            queued = self.queue.pop()
            if queued.topic is Topic.TRAIN:
                self.newest = queued.step

    def _reset(self) -> None:
        self.timing.reset()
        self._facts.forget_sent()
        self._sent_farewell = False

    def _is_urgent(self) -> bool:
        """Whether the next round should follow at once: at the end, or so that absent ranks are noticed when back."""
        if self.shutdown.exiting or (self.shutdown.closing and not self.shutdown.drained.is_set()):
            return True
        return self.options.sync and bool(self.gathers.train.attendance.absent)

    def _receive(self, rank: int, message: Message, now: float) -> None:
        if isinstance(message, RankRow):
            self.gathers.add(rank, message, now)
        elif isinstance(message, RankFacts):
            self._facts.add(rank, message.facts)
        elif isinstance(message, Farewell):
            self._finish(rank)

    def _finish(self, rank: int) -> None:
        self.gathers.finish(rank)
        self.membership.finish(rank)

    def _write(self, steps: Iterator[tuple[Topic, GatheredStep]]) -> None:
        for topic, gathered in steps:
            self.writer.write(topic, gathered, len(self.membership.members))

    def _start_gap(self, reason: str, *, quiet: bool = False) -> None:
        step = self.newest if self.options.sync else self.gathers.train.oldest(self.newest)
        self.gaps.start(reason, step, quiet=quiet)


def rank_row(queued: QueuedRow, values: Values) -> RankRow:
    """A row as it is sent: by its step, or by its position if its step was counted."""
    if queued.position is None:
        return RankRow(queued.step, values, queued.time, queued.topic)
    return RankRow(queued.position, values, queued.time, queued.topic, True)


def do_not_wait() -> None:
    """A pause that gives up at once."""
    raise UnderWay
