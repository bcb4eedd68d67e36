"""Rows that wait for statistics while the other rank finishes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from chiplog.core.records import Row
from chiplog.metrics.ranks.step_gather import RankRow, Topic
from chiplog.runtime.ranks.reduce import Reduce
from chiplog.runtime.ranks.reduce_options import ReduceOptions
from chiplog.runtime.ranks.rounds import sync_rows
from chiplog.runtime.ranks.rounds.protocol import Outbox
from chiplog.runtime.ranks.rounds.round_lock import RoundLock
from chiplog.runtime.ranks.transport.group import Finish, GroupBroken, Pause

STATISTICS = {"loss/mean": 1.5, "loss/max": 2.0, "loss/min": 1.0, "loss/std": 0.5}


class Finished:
    """Rank 0 of two. Rank 1 has logged its rows long ago; the group breaks after so many rounds, because it has left."""

    rank, world, waits = 0, 2, True

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.outbox = Outbox(False)
        for step in range(3):
            number, values = self.outbox.values({"loss": 2.0})
            self.outbox.add(number, RankRow(step, values, 0, Topic.TRAIN))

    def form(self) -> Sequence[int] | None:
        return (0, 1) if self.rounds else None

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        def finish(pause: Pause | None) -> list[bytes] | None:
            self.rounds -= 1
            if self.rounds < 0:
                raise GroupBroken("connection closed by peer")
            return [chunk, self.outbox.chunk(len(chunk))]

        return finish

    def broadcast(self, message: str, seconds: float, main: int = 0) -> str:
        return message

    def leave(self, rank: int) -> None: ...

    def left(self) -> Sequence[int]:
        return () if self.rounds > 0 else (1,)

    def close(self) -> None: ...


def test_a_row_that_waits_for_the_lock_while_the_group_ends_has_its_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread notices that the other rank has left after `log` has looked at the group, and before it gets a turn."""
    reduce = Reduce(Finished(rounds=1), ReduceOptions(sync=True, order=True), {})
    lock, waits = reduce._sync_rows._lock, threading.Event()
    monkeypatch.setattr(lock, "acquire", lambda timeout=0.0: (waits.set(), RoundLock.acquire(lock, timeout))[1])
    rows: list[Row] = []
    with lock:
        reduce._thread.take_turn()  # receives the rows of rank 1
        caller = threading.Thread(target=lambda: rows.append(reduce({"loss": 1.0}, 0)))
        caller.start()
        assert waits.wait(10.0)
        reduce._rounds.break_up("connection closed by peer")
    caller.join(10.0)
    assert rows == [{"loss": 1.0, **STATISTICS}]


def test_a_row_that_waits_for_an_absent_rank_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, with the step, the rank that it waits for, and for how long at most."""
    group = Finished(rounds=1)
    go, real = threading.Event(), group.exchange

    def exchange(chunk: bytes, everyone: bool) -> Finish:
        finish = real(chunk, everyone)
        return lambda pause: (go.wait(10.0), finish(pause))[1]

    reduce = Reduce(group, ReduceOptions(sync=True, order=True), {})
    reduce._rounds.join()
    monkeypatch.setattr(group, "exchange", exchange)
    monkeypatch.setattr(sync_rows, "LONG_WAIT", 0.05)
    caller = threading.Thread(target=lambda: reduce({"loss": 1.0}, 7))
    caller.start()
    said = ""
    deadline = time.monotonic() + 5
    while "is waiting up to" not in said and time.monotonic() < deadline:
        reduce._sync_rows.report_wait()
        said += capsys.readouterr().err
        time.sleep(0.01)
    go.set()
    caller.join(10.0)
    assert "`log` at step 7 is waiting up to " in said and "for ranks 1 (reduce='sync')" in said
    assert reduce._sync_rows._waiting is None


def test_a_row_whose_round_is_broken_by_a_rank_that_left_has_its_statistics() -> None:
    """What the rank had sent before is counted."""
    reduce = Reduce(Finished(rounds=1), ReduceOptions(sync=True, order=True), {})
    reduce._thread.take_turn()
    rows: list[Row] = [reduce({"loss": 1.0}, step) for step in range(4)]
    assert rows == [{"loss": 1.0, **STATISTICS}] * 3 + [{"loss": 1.0}]
