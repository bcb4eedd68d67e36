"""Statistics across ranks: a thread exchanges the rows of this rank with those of the others, in rounds.

The thread alone touches the group. Asynchronously, a row that has been written is left in a queue, and what all ranks
have said of its step is written later, as a second record. Synchronously, `log` waits until the round has an answer.
Evaluations and routers are never waited for: many a script makes them on one rank while the others stand still.
A rank that does not come costs a deadline on the thread (synchronously, one on `log` too) and a gap that is marked.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chiplog.core import messages
from chiplog.core.background import forks
from chiplog.core.background.wakeup import WakeUp
from chiplog.core.records import Eval, Record, Row, Step
from chiplog.core.values.media import Media
from chiplog.metrics.moe import Router
from chiplog.metrics.ranks.moe_routers import flat
from chiplog.metrics.ranks.row_matching import Lineup, Places
from chiplog.metrics.ranks.statistics import Values, is_reduced
from chiplog.metrics.ranks.step_gather import GatheredStep, RankRow, StepGather, Topic
from chiplog.runtime.ranks.exchange import Exchange
from chiplog.runtime.ranks.protocol import Farewell, Message, Outbox, RankFacts
from chiplog.runtime.ranks.reduce_options import ReduceOptions
from chiplog.runtime.ranks.statistics_writer import Book, StatisticsWriter
from chiplog.runtime.ranks.transport.group import Group, GroupBroken

TICK = 0.25  # s between two rounds, where nobody waits for one
GRACE = 0.01  # s after which a rank joins a round that somebody may wait for, though it has nothing to say
AHEAD = 256  # rows that a rank may be ahead of rank 0, synchronously
BACKGROUND = "chiplog-background"  # the thread that brings values from a device; it must not wait
LINGER = 1.0  # s that a process stays for rank 0 to hear the others
CLOSING = 5.0  # s that the end of a run waits for what the others have to say
FORMING = 2.0  # s that the beginning of a run, synchronously, waits for the others
ALONE = 1.0  # s that a row of names which nobody else has logged is waited for
IN_VAIN = 3  # such waits, after which there are no more
UNFORMED = 1.0  # s that the end of a run waits for ranks that have not come at all
LAST = 2**63  # steps are less
QUEUE, VALUES = 10_000, 1_000_000  # rows that may wait while the group is not whole, and about how many values
FEW = 100  # rows that may wait, however long they are
DEVICE = ("clock", "throttle", "temperature", "power")  # what is told of a device
FACTS = 10.0  # s between two reports of what a rank is


class Reduce:
    """Sees what a run writes; synchronously it is a stage too. Never raises, and never waits beyond its plan."""

    def __init__(self, group: Group, plan: ReduceOptions, facts: Mapping[str, Any], *, main: int = 0) -> None:
        import numpy  # noqa: F401  for the arithmetic; here, since a thread that imports endangers forks

        self._group, self._plan = group, plan
        self._root = group.rank == 0
        self._hears = self._root or plan.everyone
        # (topic, step, what was said, wall-clock nanoseconds, its place where steps are counted)
        self._queue: deque[tuple[Topic, int | float, Any, int, int | None]] = deque()
        self._wakeup = WakeUp()
        self._lock = threading.Lock()  # who is in a round: the thread, or a caller who waits for it
        self._holder = 0
        self._facts: dict[int, dict[str, Any]] = {group.rank: dict(facts)}
        self._told: dict[str, Any] = {}
        self._main = group.rank == main  # whose run the statistics are for
        self._report = StatisticsWriter(plan, self._facts, main=self._main)
        self._drained, self._apart = threading.Event(), threading.Event()
        self._closing = self._stopped = self._leaving = False
        self._formed = False
        self._left: set[int] = set()  # the ranks that have finished
        self._floor: int | float | None = None
        self._pause = 0.005  # s until it is asked again whether the group is whole
        self._asked = 0.0  # when a row last found a round under way
        self._alone: set[str] = set()  # names that only this rank has: it has waited for others in vain
        self._in_vain = 0
        self._lineup = Lineup(group.rank, range(group.world), plan.deadline) if plan.order else None
        self._places = Places()
        self._first = self._waits_at_first = True
        self.counted = False  # whether the step of the next row is counted; set by who logs, where rows are lined up
        self._newest: int | float = 0
        self._thread = threading.Thread(target=self._serve, name="chiplog-ranks", daemon=True)
        self._rounds: Exchange | None = None  # None while the group is not whole
        self._begin(())

    # -- on the caller's thread ------------------------------------------------------------------------------------

    def see(self, record: Record) -> None:
        """Take along a record that has been written, unless it is one of ours."""
        kind = type(record)
        if kind is Step:
            if not self._plan.sync and not self._skips(record.step):  # type: ignore[attr-defined]
                self._put(Topic.TRAIN, record.step, record.metrics)  # type: ignore[attr-defined]
        elif kind is Eval and _is_sent(record.step):  # type: ignore[attr-defined]
            self._put(Topic.EVAL, record.step, record.metrics)  # type: ignore[attr-defined]

    def see_media(self, name: str, media: Media, step: int | float) -> None:
        """Take along what a router did."""
        if isinstance(media, Router) and not self._skips(step):
            self._put(Topic.ROUTER, step, flat(name, media))

    def __call__(self, row: Row, step: int | float) -> Row:
        """Synchronously: the row with its statistics, where this rank gets them."""
        place = self._places.next(filter(is_reduced, row)) if self._lineup is not None and self.counted else None
        if self._first:
            self._first = False
            if self._rounds is None and not self._formed:
                self._await_group()
        if self._lineup is not None and self._rounds is None and self._hears and self._is_last():
            return self._look_up(row, step, place)
        if self._rounds is None or self._report.gap is not None:  # not whole just now
            self._newest = step
            return row
        if self._stopped or self._skips(step):
            return row
        if not self._hears or threading.current_thread().name == BACKGROUND:
            self._put(Topic.TRAIN, step, row, place)
            self._send()
            if len(self._queue) > AHEAD:
                self._hold_back()
            return row
        return self._ask(row, step, place)

    def _skips(self, step: int | float) -> bool:
        return not _is_sent(step) or (self._plan.every > 1 and step % self._plan.every != 0)

    def _put(self, topic: Topic, step: int | float, what: Any, place: int | None = None) -> None:
        if self._stopped or (self._report.writer and self._report.writer == threading.get_ident()):
            return  # the statistics themselves
        self._report.logs = True
        if len(self._queue) >= FEW:
            self._make_room(max(FEW, min(QUEUE, VALUES // (len(what) or 1))))
        self._queue.append((topic, step, what, time.time_ns(), place))

    def _make_room(self, most: int) -> None:
        if len(self._queue) < most:
            return
        messages.once("ranks behind", f"more than {most:,} rows wait for the other ranks; the oldest are given up")
        try:
            self._queue.popleft()
        except IndexError:  # the thread has just taken them all
            pass

    def _send(self) -> None:
        """Begin a round here and now, where none is under way: rank 0 may wait for it. It completes by itself."""
        if not self._lock.acquire(blocking=False):
            self._wakeup.set()
            return
        self._holder = threading.get_ident()
        alone = False
        try:
            if self._rounds is not None:
                self._pack()
                if self._rounds.under_way:
                    self._round(_not_now)
                self._rounds.begin()
                alone = self._group.waits and not self._rounds.agreeing
        except _Later:
            self._asked = time.monotonic()
        except GroupBroken as error:
            self._break(str(error))
        finally:
            self._holder = 0
            self._lock.release()
        if not alone:
            self._wakeup.set()

    def _ask(self, row: Row, step: int | float, place: int | None) -> Row:
        """The row with the statistics of its step: the rounds that takes are done here and now."""
        began = time.monotonic()
        if self._holder == threading.get_ident() or not self._lock.acquire(timeout=self._plan.deadline):
            return row  # a signal handler in between, or the thread is in a round to which a rank does not come
        self._holder = threading.get_ident()
        try:
            self._put(Topic.TRAIN, step, row, place)
            self._pack()
            tally: Any = self._tallies[Topic.TRAIN]
            asked = tally.ask(self._group.rank, step)
            names = asked and tally.names(self._group.rank, *asked)
            while asked and self._rounds is not None and not self._stopped:
                waited = time.monotonic() - began
                if self._is_own(names, waited):
                    break  # its statistics come later, if there are any
                if tally.has(*asked, waited):
                    self._report.miss(tally.attendance.absent, step)
                    found = self._report.statistics(Topic.TRAIN, tally.of(*asked), len(self._rounds.members))
                    return {**row, **found}
                if not self._rounds.under_way:
                    self._rounds.begin()
                self._round(None if self._group.waits else self._wait_a_little)
        except (GroupBroken, _Later) as error:
            self._break(str(error))
        finally:
            self._holder = 0
            self._lock.release()
        return row

    def _is_own(self, names: Sequence[str], waited: float) -> bool:
        """Whether a row is this rank's alone: nobody else has logged one of its names, and waiting has not helped.

        That is waited for shortly, and not again and again. Before anybody else has logged anything at all, it may be
        the first row of training, and has the usual time.
        """
        if not self._report.heard or not self._report.heard.isdisjoint(names):
            return False
        if not self._alone.issuperset(names) and self._in_vain < IN_VAIN:
            if waited <= min(ALONE, self._plan.deadline):
                return False
            self._in_vain += 1
            self._alone.update(names)
        return True

    def _is_last(self) -> bool:
        """Whether all other ranks have finished; what they have logged may still be asked for."""
        return self._formed and len(self._left) + 1 >= self._group.world

    def _look_up(self, row: Row, step: int | float, place: int | None) -> Row:
        """The row with the statistics of what ranks have logged that have finished since."""
        assert self._lineup is not None
        if self._skips(step):
            return row
        with self._lock:
            _, values = Outbox(self._plan.counters).values(row)
            now = time.monotonic()
            self._lineup.add(self._group.rank, _said(step, values, time.time_ns(), Topic.TRAIN, place), now, step)
            asked = self._lineup.ask(self._group.rank, step)
            if asked is None or len(asked[0].rows) < 2:
                return row
            found = self._report.statistics(Topic.TRAIN, self._lineup.of(*asked), self._group.world)
            return {**row, **found}

    def _await_group(self) -> None:
        """Before the first row: give the ranks a moment to meet; where there is no group by now, give it up."""
        if not self.has_group:
            self._stopped = True
            self._wakeup.set()
        elif self._waits_at_first:
            self._await(FORMING)

    def _await(self, seconds: float) -> None:
        until = time.monotonic() + min(seconds, self._plan.deadline)
        while self._rounds is None and not self._stopped and time.monotonic() < until:
            time.sleep(0.005)
        if self._rounds is None and self._main and not self._stopped:
            messages.say(
                f"not all {self._group.world} ranks have begun this run within {seconds:g} s: its rows have no "
                "statistics across ranks until they do"
            )

    def _hold_back(self) -> None:
        """Wait for rank 0, which is far behind: what does not fit into the queue would be lost."""
        until = time.monotonic() + self._plan.deadline
        while len(self._queue) > AHEAD and self._rounds is not None and time.monotonic() < until:
            time.sleep(0.0005)

    def start(self, book: Book) -> None:
        """Begin; synchronously, wait a moment until the group is whole."""
        self._report.book = book
        if self._main:  # before any row, so that who reads them knows that they are one rank's
            book.event("ranks", statistics="sync" if self._plan.sync else "async")
        book.on_record(self.see)
        book.on_media(self.see_media)
        forks.watch(self)
        atexit.register(self._leave)
        self._thread.start()
        if self._plan.sync and self.has_group:
            self._waits_at_first = False
            self._await(FORMING)

    def close(self, timeout: float = CLOSING) -> None:
        """Send what is left and wait for what the others have to say, but no longer than that."""
        self._closing = True
        self._wakeup.set()
        if self._thread.is_alive():
            self._drained.wait(timeout if self._formed else min(timeout, UNFORMED))
        if self._root:
            self._stop()
            if self._queue and (why := self._why_not()):
                self._report.account(len(self._queue), self._queue[0][1], why)
            self._queue.clear()

    def _why_not(self) -> str:
        """Why rows have no statistics at the end; empty where that is as it should be."""
        if self._formed:
            return "" if len(self._left) + 1 >= self._group.world else "it was not whole at the end"
        # Many scripts begin a run on rank 0 only. Where nobody asked for statistics, nobody misses them.
        return "not all ranks have called chiplog.init" if self._plan.asked else ""

    @property
    def has_group(self) -> bool:
        """Whether there is a process group by now."""
        return bool(getattr(self._group, "there", True))

    @property
    def is_stage(self) -> bool:
        """Whether a row comes back with its statistics."""
        return self._plan.sync

    @property
    def members(self) -> Sequence[int]:
        """The ranks that are together just now."""
        return () if self._rounds is None else self._rounds.members

    def tell_device(self, data: Mapping[str, Any]) -> None:
        """Take from a sample of a device what may explain that a rank is slow: its clocks, and why they are low."""
        told = {name: value for name, value in data.items() if any(word in name for word in DEVICE)}
        mine, which = self._facts[self._group.rank], str(data.get("id", 0))
        devices = mine.get("devices", {})
        mine["devices"] = {**devices, which: {**devices.get(which, {}), **told}}  # not every sample says everything

    def forked(self) -> None:
        self._stopped = True

    def _leave(self) -> None:
        """At the end of the process: stay a moment for rank 0, which needs all ranks to hear one of them."""
        if not self._closing:  # nobody has finished the run: that comes later, and the others are to hear of it
            self.close(CLOSING if self._root else LINGER)
        self._leaving = True
        self._wakeup.set()
        if not self._root and self._thread.is_alive() and self._rounds is not None:
            self._apart.wait(LINGER)
        self._stop()

    def _stop(self) -> None:
        self._stopped = True
        self._wakeup.set()
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
            if pause > 0:
                self._wakeup.wait(pause)
        if self._closing:  # what was not completed in time is worth writing too
            self._write_rest()
        self._drained.set()
        try:
            self._group.close()
        except Exception:  # it goes anyway
            pass

    def _work(self) -> float:
        """Do what is due; gives the seconds until something is again."""
        try:
            if self._rounds is None:
                self._shed()
                self._report.remind(self._plan.deadline)
                if (rounds := self._join()) is None:
                    longest = 0.5 if self._formed else min(0.5, max(0.02, 0.0005 * self._group.world))
                    self._pause = min(2 * self._pause, longest)
                    return self._pause
            else:
                rounds = self._rounds
            self._pack()
            self._settle()
            if not rounds.under_way:
                due = self._due - time.monotonic()
                if due > 0 and not (rounds.outbox.left if self._plan.sync else rounds.full):
                    return due
                rounds.begin()
            self._round(_not_now)
            self._settle()
            return 0.0
        except _Later:
            return self._patience()
        except Exception as error:  # the group is broken, or the store has gone with the rank that held it
            # An error of our own ends it: others would go on with rounds that this rank has lost count of.
            self._stopped = self._stopped or (self._rounds is not None and not isinstance(error, GroupBroken))
            self._break(str(error))
            return 0.0 if isinstance(error, GroupBroken) else 1.0

    def _join(self) -> Exchange | None:
        """The rounds of the group, once it is whole."""
        members = self._group.form()
        if not members:
            self._stopped = self._stopped or members is not None
            if self._closing and self._formed:
                self._drained.set()
            return None
        self._begin(members)
        self._floor = self._newest if self._formed else None
        self._formed = True
        self._report.back(self._newest)
        return self._rounds

    def _begin(self, members: Sequence[int]) -> None:
        """Everything that belongs to one group, anew."""
        self._tallies: dict[Topic, Any] = {topic: StepGather(members, self._plan.deadline) for topic in Topic}
        if self._lineup is not None:  # which stays: what ranks have logged before they left still counts
            self._tallies[Topic.TRAIN] = self._lineup
            self._lineup.form(members)
        self._due = self._facts_due = 0.0
        self._grace = TICK if self._root else GRACE
        self._pause = 0.005
        self._told = {}
        self._said_bye = False
        self._gone: set[int] = set()
        plan = self._plan
        how = {"everyone": plan.everyone, "counters": plan.counters}
        rounds = Exchange(self._group, members, **how, heard=self._report.heard) if members else None
        self._rounds = rounds  # last: whoever sees it may use the rest

    def _pace(self) -> float:
        """Seconds from one round to the next, where nobody waits."""
        if self._leaving or (self._closing and not self._drained.is_set()):
            return GRACE
        if self._plan.sync and self._tallies[Topic.TRAIN].attendance.absent:
            return GRACE  # so that rows are over all ranks again as soon as they are back
        return self._grace if self._plan.sync else TICK

    def _pack(self) -> None:
        """Take what has come."""
        assert self._rounds is not None
        outbox, rank, now = self._rounds.outbox, self._group.rank, time.monotonic()
        closing = self._closing  # asked first: what was logged before it is in the queue by now
        if now >= self._facts_due and not self._root and self._told != self._facts[rank]:
            self._facts_due = now + FACTS
            self._told = dict(self._facts[rank])
            outbox.tell(self._told)
        if self._report.gap is not None:  # a round waits for a rank, perhaps to the end
            self._shed()
        while self._queue:
            topic, step, what, wall, place = self._queue.popleft()
            number, values = outbox.known(what) if isinstance(what, Values) else outbox.values(what)
            said = _said(step, values, wall, topic, place)
            if topic is Topic.TRAIN:
                self._newest = step
            if not self._root or self._plan.everyone:
                outbox.add(number, said)
            if self._hears and values.names and said.counted:
                self._tallies[topic].add(rank, said, now, step)
            elif self._hears and values.names:
                self._tallies[topic].add(rank, said, now)
        if closing and not self._said_bye:
            self._said_bye = True
            outbox.leave()
            self._leaves(rank)

    def _round(self, pause: Any) -> None:
        """Complete the round under way; raises what the pause does."""
        rounds = self._rounds
        assert rounds is not None
        heard = rounds.finish(pause)
        now = time.monotonic()
        if rounds.idle and self._plan.everyone and not self._root:
            self._learn(in_the_way=bool(rounds.outbox.left or self._queue), took=now - rounds.began)
        self._due = now + self._pace()
        self._report.back(self._newest)
        if self._hears:
            for rank, frame in heard:
                self._hear(rank, frame, now)
            for tally in self._tallies.values():
                tally.turn()
        if self._said_bye and not rounds.outbox.left and not self._root and not self._main:
            self._drained.set()

    def _learn(self, *, in_the_way: bool, took: float) -> None:
        """When to join a round with nothing to say: soon where others waited for that, later where a row came next.

        Only where everyone gets the row: then all know when one round was not enough, and none is waited for so long.
        """
        if in_the_way:
            self._grace = min(2 * self._grace, TICK)
        elif took < GRACE / 2:
            self._grace = GRACE

    def _hear(self, rank: int, frame: Message, now: float) -> None:
        if isinstance(frame, RankRow):
            late = frame.topic is Topic.TRAIN and self._floor is not None and not frame.step > self._floor
            if not late or (
                self._lineup is not None and frame.topic is Topic.TRAIN
            ):  # what was logged before we were whole again
                self._tallies[frame.topic].add(rank, frame, now)
        elif isinstance(frame, RankFacts):
            self._facts[rank] = frame.facts
        elif isinstance(frame, Farewell):
            self._goes(rank)

    def _goes(self, rank: int) -> None:
        """A rank has finished."""
        self._gone.add(rank)
        self._left.add(rank)
        self._leaves(rank)
        self._group.leave(rank)

    def _leaves(self, rank: int) -> None:
        for tally in self._tallies.values():
            tally.leave(rank)

    def _settle(self) -> None:
        """Write what is complete."""
        now = time.monotonic()
        if not self._hears:
            return
        self._write((topic, gathered) for topic, tally in self._tallies.items() for gathered in tally.ready(now))
        if self._plan.sync and not self._closing:
            self._report.miss(self._tallies[Topic.TRAIN].attendance.absent, self._newest)
        if self._said_bye and (self._all_gone() or not any(map(len, self._tallies.values()))):
            self._write_rest()
            self._drained.set()

    def _write(self, complete: Iterator[tuple[Topic, GatheredStep]]) -> None:
        for topic, gathered in complete:
            self._report.write(topic, gathered, len(self.members))

    def _write_rest(self) -> None:
        self._write((topic, gathered) for topic, tally in self._tallies.items() for gathered in tally.rest())

    # -- when a rank is missing ------------------------------------------------------------------------------------

    def _patience(self) -> float:
        """A round is not over: seconds until the next look. One that is late is a gap."""
        assert self._rounds is not None
        now = time.monotonic()
        taken = now - self._rounds.began
        if self._report.gap is None and taken > self._plan.deadline:
            left = f"; finished: {', '.join(map(str, sorted(self._gone)[:8]))}" if self._gone else ""
            self._mark(f"not all ranks came within {self._plan.deadline:g} s{left}")
        if self._plan.sync and not self._rounds.outbox.left and threading.current_thread() is self._thread:
            return max(0.001, min(0.5 * taken, GRACE / 2))  # a row would ring the bell
        least, most = (20e-6, 0.002) if self._plan.sync else (0.001, 0.02)
        return max(least, min(0.1 * min(taken, now - self._asked), most))

    def _wait_a_little(self) -> None:
        if self._stopped:
            raise _Later("the run has ended")
        time.sleep(self._patience())

    def _break(self, reason: str) -> None:
        """The group is gone: what waits is given up, and the gap is marked."""
        if (self._root or self._main) and self._closing:
            self._write_rest()
            self._drained.set()
        else:
            self._say_goodbye()
            if not self._all_gone():
                gone = ", ".join(map(str, sorted(self._gone)[:8]))
                self._mark(f"finished: rank {gone}" if gone else reason, quiet=bool(gone))
        self._begin(())
        self._apart.set()
        if not self._closing:
            self._shed()

    def _say_goodbye(self) -> None:
        """Take note of members that have finished without that anybody heard it in a round."""
        try:
            for rank in set(self._group.left()).intersection(self.members) - self._gone:
                self._goes(rank)
        except Exception:  # the store has gone with the rank that held it
            pass

    def _all_gone(self) -> bool:
        return bool(self._gone) and len(self._gone) + 1 >= len(self.members)

    def _mark(self, reason: str, *, quiet: bool = False) -> None:
        first = self._newest if self._plan.sync else self._tallies[Topic.TRAIN].oldest(self._newest)
        self._report.mark(reason, first, quiet=quiet)

    def _shed(self) -> None:
        """What is logged while the group is not whole is not waited for; before it ever was, it is."""
        while self._formed and self._queue:
            topic, step, *_ = self._queue.popleft()
            if topic is Topic.TRAIN:
                self._newest = step


def _said(step: int | float, values: Values, wall: int, topic: Topic, place: int | None) -> RankRow:
    return RankRow(step, values, wall, topic) if place is None else RankRow(place, values, wall, topic, True)


def _is_sent(step: int | float) -> bool:
    """Whether a step is reduced at all: not one that is no number, or beyond the integers that are sent."""
    return -LAST < step < LAST


class _Later(Exception):
    """A round is not over yet, and is not waited for."""


def _not_now() -> None:
    raise _Later
