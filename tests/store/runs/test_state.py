"""The state of a run, from the end of its journal."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import msgspec
import pytest

import chiplog
from chiplog.core.records import Attempt, Eval, Finish, Record, Step
from chiplog.store import layout
from chiplog.store.journal.lines import line_of
from chiplog.store.parts.compaction import compact, prune
from chiplog.store.runs import liveness, state

HERE = Attempt(
    0, 0, 1, "a", 0, 1, liveness.hostname(), os.getpid(), 0, "process", "1",
    boot=liveness.boot_id(), born=liveness.born(os.getpid()),
)  # fmt: skip


def attempt(**fields: object) -> Attempt:
    """The first record of this process, with some fields changed."""
    return msgspec.structs.replace(HERE, **fields)


def journal(run: Path, *written: Record, attempt: int = 1, rank: int = 0) -> Path:
    path = run / "journal" / layout.Segment(rank, attempt, 0).filename
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(map(line_of, written)))
    return path


def test_a_run_without_a_journal_is_empty(tmp_path: Path) -> None:
    """Its directory may have been created a moment ago."""
    assert state.state_of(tmp_path) == "empty" and state.attempts(tmp_path) == []


def test_the_finish_record_decides(tmp_path: Path) -> None:
    """Even if the process is still there."""
    journal(tmp_path, attempt(), Finish(1, 5, "failed"))
    (only,) = state.attempts(tmp_path)
    assert only.state == state.state_of(tmp_path) == "failed" and only.seconds(now=9) == 5 / 1e9


def test_without_one_the_process_decides(tmp_path: Path) -> None:
    """On this machine; elsewhere the time of the last heartbeat does."""
    journal(tmp_path, attempt())
    assert state.state_of(tmp_path) == "running"
    journal(tmp_path, attempt(born=1))
    assert state.state_of(tmp_path) == "killed"
    path = journal(tmp_path, attempt(host="elsewhere"))
    assert state.state_of(tmp_path) == "running"
    os.utime(path, (time.time() - 2 * state.LOST,) * 2)
    assert state.state_of(tmp_path) == "lost"


def test_two_launches_at_the_same_time_are_two_writers(tmp_path: Path) -> None:
    """Ranks of one launch are not."""
    journal(tmp_path, attempt(launch="a"), Finish(1, 10, "finished"))
    journal(tmp_path, attempt(launch="a"), Finish(1, 10, "finished"), rank=1)
    assert state.two_writers(state.attempts(tmp_path), now=20) == []
    journal(tmp_path, attempt(launch="b"), Finish(1, 10, "finished"), attempt=2)
    ((first, second),) = state.two_writers(state.attempts(tmp_path), now=20)
    assert (first.attempt, second.attempt) == (1, 2)


def test_pairs_of_writers_are_those_that_a_comparison_of_all_finds() -> None:
    """Whatever the order and the lengths of the attempts, those of no length included."""
    pick = random.Random(1)
    for _ in range(200):
        lives = []
        for number in range(12):
            begin = pick.randrange(20)
            last = Finish(1, begin + pick.randrange(8), "finished")
            launch = pick.choice("abcdefgh")
            lives.append(state.AttemptState(0, number, attempt(launch=launch, time=begin), last, last, 0.0, "finished"))
        expected = {
            frozenset((one.launch, other.launch))
            for at, one in enumerate(lives)
            for other in lives[at + 1 :]
            if one.launch != other.launch and one.start.time < other.last.time and other.start.time < one.last.time
        }
        pairs = state.two_writers(lives, now=0)
        assert {frozenset((one.launch, other.launch)) for one, other in pairs} == expected
        assert len(pairs) == len(expected) and all(one.attempt < other.attempt for one, other in pairs)


def test_the_highest_step_is_that_of_the_newest_attempts(tmp_path: Path) -> None:
    """Steps that are not finite do not count."""
    assert state.highest_step(tmp_path, 0) is None
    journal(tmp_path, attempt(), Step(1, 1, 40, {"loss": 1.0}), Step(2, 2, float("inf"), {"loss": 1.0}))
    journal(tmp_path, attempt(), Step(1, 1, 7.5, {"loss": 1.0}), attempt=2)
    assert state.highest_step(tmp_path, 0) == 40 and state.highest_step(tmp_path, 1) is None


def test_the_highest_step_before_a_launch_is_that_of_any_rank(tmp_path: Path) -> None:
    """Whichever has kept the last attempt; but not of the ranks that have just started with it."""
    assert state.highest_before(tmp_path, 0, "new") is None
    journal(tmp_path, attempt(born=1), Step(1, 1, 40, {"loss": 1.0}))
    journal(tmp_path, attempt(born=1), Step(1, 1, 60, {"loss": 1.0}), rank=1)
    journal(tmp_path, attempt(born=1), attempt=2, rank=1)  # it has logged nothing
    assert [state.highest_before(tmp_path, rank, "new") for rank in range(3)] == [60, 60, 60]
    journal(tmp_path, attempt(launch="new"), Step(1, 1, 61, {"loss": 1.0}), attempt=3, rank=1)
    assert state.highest_before(tmp_path, 0, "new") == 60


def test_of_very_many_ranks_few_are_searched_for_the_highest_step(tmp_path: Path) -> None:
    """Those that have started most often, and the own rank."""
    for rank in range(100):
        journal(tmp_path, attempt(born=1), Step(1, 1, rank, {"loss": 1.0}), rank=rank)
    journal(tmp_path, attempt(born=1), Step(1, 1, 20, {"loss": 1.0}), attempt=2, rank=50)
    assert [state.highest_before(tmp_path, rank, "new") for rank in (0, 30, 90)] == [20, 30, 90]


@pytest.mark.parametrize("pruned", [False, True])
def test_a_pruned_run_has_the_same_end(tmp_path: Path, pruned: bool) -> None:
    """From its part: the journal is compressed."""
    with chiplog.init("p", sinks="none", dir=tmp_path, compact=False, alerts=False) as run:
        run.log({"loss": 0.5, "ok": True}, step=3)
    if pruned:
        for segment in layout.segments(run.dir):
            assert compact(run.dir, segment) and prune(run.dir, segment)
    assert state.state_of(run.dir) == "finished" and state.highest_step(run.dir, 0) == 3
    values = state.last_values(run.dir)
    assert (values["loss"], values["ok"], values["step"]) == (0.5, True, 3)


@pytest.mark.parametrize("pruned", [False, True])
def test_values_set_by_hand_are_among_the_last_values(tmp_path: Path, pruned: bool) -> None:
    """However early they were set; they override the last value of a series."""
    with chiplog.init("p", dir=tmp_path, sinks="none", compact=False) as run:
        run.summary["best"] = {"acc": 0.9}
        run.summary["loss"] = 0.5
        for step in range(1000):
            run.log({"loss": 1.0 + step}, step=step)
    if pruned:
        for segment in layout.segments(run.dir):
            assert compact(run.dir, segment) and prune(run.dir, segment)
    values = state.last_values(run.dir)
    assert values["best/acc"] == 0.9 and values["loss"] == 0.5 and values["step"] == 999


def test_an_attempt_that_only_evaluates_does_not_hide_the_loss(tmp_path: Path) -> None:
    """What it does not have comes from older attempts, as far as something is still looked for."""
    journal(tmp_path, attempt(), Step(1, 1, 5, {"old": 2.0, "loss": 9.0}))
    journal(tmp_path, attempt(attempt=2), Step(1, 2, 7, {"loss": 1.0, "acc": 0.1}), attempt=2)
    journal(tmp_path, attempt(attempt=3), attempt=3)
    journal(tmp_path, attempt(attempt=4), Eval(1, 3, 6, {"acc": 0.9}), attempt=4)
    values = state.last_values(tmp_path, lambda known: "loss" in known)
    assert values == {"loss": 1.0, "acc": 0.1, "eval/acc": 0.9, "step": 6}
    assert state.last_values(tmp_path) == {"eval/acc": 0.9, "step": 6}


def test_workers_are_parts_of_the_attempt_they_joined(tmp_path: Path) -> None:
    """Of its launch, whatever their rank; a pool ends them with a signal, which is not a killed attempt."""
    journal(tmp_path, attempt(), Finish(1, 5, "finished"))
    journal(tmp_path, attempt(attempt=2, born=1, attached=True), attempt=2)
    journal(tmp_path, attempt(attempt=1, rank=1, attached=True), rank=1)
    journal(tmp_path, attempt(attempt=3, launch="b"), Finish(1, 9, "finished"), attempt=3)
    journal(tmp_path, attempt(attempt=4, launch="gone", born=1, attached=True), attempt=4)
    journal(tmp_path, attempt=5)  # its pool ended this one while it opened its journal
    first, second, alone = state.attempts(tmp_path)
    assert [(one.rank, one.attempt, one.state) for one in first.workers] == [(1, 1, "running"), (0, 2, "ended")]
    assert (second.attempt, second.workers) == (3, ()) and (alone.attempt, alone.state) == (4, "ended")
    assert len(state.journals(tmp_path)) == 6 and len(state.live_streams([first])) == 1
    assert state.state_of(tmp_path) == "finished"


def test_a_segment_that_has_just_begun_hides_nothing(tmp_path: Path) -> None:
    """The newest values, the step and the last record are then in the one before."""
    journal(tmp_path, attempt(), Step(1, 10, 40, {"loss": 0.5}))
    (tmp_path / "journal" / "r00000-a01-0001.jsonl").touch()
    assert state.last_values(tmp_path)["step"] == state.highest_step(tmp_path, 0) == 40
    (one,) = state.attempts(tmp_path)
    assert one.last is not None and one.last.time == 10
