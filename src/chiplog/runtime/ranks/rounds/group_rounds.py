"""The rounds of the current group: rows out of the queue, messages of other ranks into the gathers, and into the run.

All but `enqueue` is called with the round lock held, by the thread of the ranks or by a caller that waits for its row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from chiplog.core.records import Row
from chiplog.metrics.ranks.row_matching import RowMatcher
from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import GatheredStep, RankRow, StepGather, Topic
from chiplog.runtime.ranks.reduce_options import ReduceOptions
from chiplog.runtime.ranks.rounds.exchange import Exchange
from chiplog.runtime.ranks.rounds.hosts_and_devices import FactsByRank
from chiplog.runtime.ranks.rounds.protocol import Farewell, Message, RankFacts
from chiplog.runtime.ranks.rounds.row_queue import QueuedRow, RowQueue
from chiplog.runtime.ranks.statistics_gaps import Gaps
from chiplog.runtime.ranks.statistics_writer import StatisticsWriter
from chiplog.runtime.ranks.transport.group import Group, Pause

TICK = 0.25  # s between two rounds if no rank waits for one
GRACE = 0.01  # s after which a rank with nothing to send joins a round that another rank may wait for
FIRST_POLL = 0.005  # s until the group is polled again; it doubles


class UnderWay(Exception):
    """A round is not over, and no caller waits for it."""


class ShutdownFlags:
    """Flags that the training thread sets, and events that the thread of the ranks sets in return."""

    def __init__(self) -> None:
        self.closing = False  # the run has finished: send what is left, and a farewell
        self.exiting = False  # the process ends
        self.stopped = False  # no more rounds
        self.drained = threading.Event()  # everything has been sent and written
        self.disconnected = threading.Event()  # the group has broken up


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
        closing = self.shutdown.closing  # read first: rows logged before it was set are then already in the queue
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


class Membership:
    """The members of the current group; none while the group is incomplete."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self.members: Sequence[int] = ()
        self.was_formed = False  # at least once
        self._finished: set[int] = set()
        self._finished_here: set[int] = set()  # since this group was formed

    def form(self, members: Sequence[int]) -> None:
        """Start with a new group, or with none."""
        self.members = members
        self._finished_here = set()
        self.was_formed = self.was_formed or bool(members)

    def finish(self, rank: int) -> None:
        """A rank has finished: the next group is formed without it."""
        self._finished_here.add(rank)
        self._finished.add(rank)
        self._group.leave(rank)

    def unnoticed(self) -> set[int]:
        """The members that have finished without announcing it in a round."""
        try:
            return set(self._group.left()).intersection(self.members) - self._finished_here
        except Exception:  # the store has gone with the rank that held it
            return set()

    @property
    def finished_here(self) -> str:
        """The ranks that have left the current group, for a message."""
        return ", ".join(map(str, sorted(self._finished_here)[:8]))

    @property
    def others_left_group(self) -> bool:
        """Whether all other members of the current group have finished."""
        return bool(self._finished_here) and len(self._finished_here) + 1 >= len(self.members)

    @property
    def is_last(self) -> bool:
        """Whether all other ranks of the run have finished."""
        return self.was_formed and len(self._finished) + 1 >= self._group.world


class RoundTiming:
    """The timing of one rank; `sync` if its callers wait for rounds, `root` on rank 0."""

    def __init__(self, *, sync: bool, root: bool, world: int) -> None:
        self._sync, self._root, self._world = sync, root, world
        self._collided = 0.0  # when a row last found a round under way
        self.reset()

    def reset(self) -> None:
        """Start with a new group."""
        self.due = 0.0
        self._grace = TICK if self._root else GRACE
        self._form_poll = FIRST_POLL

    def schedule(self, now: float, *, hurry: bool) -> None:
        """Set the time of the next round."""
        if hurry:
            self.due = now + GRACE
        else:
            self.due = now + (self._grace if self._sync else TICK)

    def learn(self, *, row_waited: bool, took: float) -> None:
        """Adapt the time after which this rank joins with nothing to send, after it has done so.

        Earlier if the others waited for it; later if a row followed, which then needed a second round. This works only
        if every rank gets the row: then all of them notice that one round was not enough.
        """
        if row_waited:
            self._grace = min(2 * self._grace, TICK)
        elif took < GRACE / 2:
            self._grace = GRACE

    def collide(self) -> None:
        """A row has found a round under way."""
        self._collided = time.monotonic()

    def form_poll(self, *, was_formed: bool) -> float:
        """Seconds until the group is asked again whether it is complete."""
        longest = 0.5 if was_formed else min(0.5, max(0.02, 0.0005 * self._world))
        self._form_poll = min(2 * self._form_poll, longest)
        return self._form_poll

    def round_poll(self, now: float, elapsed: float, *, idle: bool) -> float:
        """Seconds until the round under way is polled again; `idle` if a row of this rank would wake the poller."""
        if self._sync and idle:
            return max(0.001, min(0.5 * elapsed, GRACE / 2))
        least, most = (20e-6, 0.002) if self._sync else (0.001, 0.02)
        return max(least, min(0.1 * min(elapsed, now - self._collided), most))


class Gathers:
    """One gather per topic, for the members of the current group.

    With the option `order`, training rows are matched one by one instead, and stay when the group changes: what a rank
    logged before it finished still counts.
    """

    def __init__(self, rank: int, world: int, options: ReduceOptions) -> None:
        self._rank, self._deadline = rank, options.deadline
        self.matcher = RowMatcher(rank, range(world), options.deadline) if options.order else None
        self.form(())

    def form(self, members: Sequence[int], after: int | float | None = None) -> None:
        """Start with a new group; training rows of other ranks up to the step `after` are too old for it."""
        self._by_topic: dict[Topic, StepGather | RowMatcher] = {
            topic: StepGather(members, self._deadline) for topic in Topic
        }
        if self.matcher is not None:
            self._by_topic[Topic.TRAIN] = self.matcher
            self.matcher.form(members)
        self._after = after

    @property
    def train(self) -> StepGather | RowMatcher:
        return self._by_topic[Topic.TRAIN]

    @property
    def is_empty(self) -> bool:
        return not any(map(len, self._by_topic.values()))

    def add_own(self, row: RankRow, now: float, step: int | float) -> None:
        """Add a row of this rank, which was logged at this step."""
        if row.counted and self.matcher is not None:
            self.matcher.add(self._rank, row, now, step)
        else:
            self._by_topic[row.topic].add(self._rank, row, now)

    def add(self, rank: int, row: RankRow, now: float) -> None:
        """Add a row of another rank, unless it was logged before the group was complete again."""
        is_step = row.topic is Topic.TRAIN and self.matcher is None
        if not is_step or self._after is None or row.step > self._after:
            self._by_topic[row.topic].add(rank, row, now)

    def finish(self, rank: int) -> None:
        """A rank will not send any more rows."""
        for gather in self._by_topic.values():
            gather.leave(rank)

    def end_round(self) -> None:
        """What arrives from now on is later."""
        for gather in self._by_topic.values():
            gather.end_round()

    def ready(self, now: float) -> Iterator[tuple[Topic, GatheredStep]]:
        """Remove the steps that are complete, or have waited too long."""
        return ((topic, step) for topic, gather in self._by_topic.items() for step in gather.ready(now))

    def rest(self) -> Iterator[tuple[Topic, GatheredStep]]:
        """Remove all steps, at the end."""
        return ((topic, step) for topic, gather in self._by_topic.items() for step in gather.rest())
