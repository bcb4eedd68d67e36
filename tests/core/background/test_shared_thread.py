"""The one thread of all runs that are open beside another."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

import chiplog
from chiplog.core.background import shared_thread
from chiplog.core.background.shared_thread import SharedBackground
from chiplog.core.background.thread import Background, IdlePause
from tests.support.waiting import wait_for


def shared_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "chiplog-background-shared"]


def test_the_only_run_has_a_thread_of_its_own() -> None:
    """Those beside it share one, which ends with the last of them."""
    before = shared_threads()  # of runs that other tests have left open
    first = shared_thread.background()
    assert isinstance(first, Background)
    first.start()
    beside = [shared_thread.background() for _ in range(3)]
    assert all(isinstance(one, SharedBackground) for one in beside)
    for one in beside:
        one.start()
    assert len(shared_threads()) == 1
    names: list[str] = []
    for one in (*beside, first):
        assert one.stop(10, lambda: names.append(threading.current_thread().name))
    assert names == ["chiplog-background-shared"] * 3 + ["chiplog-background"]
    wait_for(lambda: len(shared_threads()) <= len(before))
    last = shared_thread.background()
    assert isinstance(last, Background) and last.stop(10, lambda: None)


def test_a_run_that_is_about_to_start_is_not_alone() -> None:
    """Runs may be opened on several threads at once: only one of them has a thread of its own."""
    made = [shared_thread.background() for _ in range(3)]
    assert [type(one) for one in made] == [Background, SharedBackground, SharedBackground]
    assert all(one.stop(10, lambda: None) for one in made)
    last = shared_thread.background()
    assert isinstance(last, Background) and last.stop(10, lambda: None)


def test_tasks_are_called_when_they_are_due_and_when_woken() -> None:
    """An idle run is called rarely, and all of it at once."""
    called, woken = [0, 0], threading.Semaphore(0)

    def busy() -> float:
        called[0] += 1
        return 0.02

    def idle() -> float:
        called[1] += 1
        woken.release()
        return IdlePause(0.02)

    runs = [SharedBackground(), SharedBackground()]
    for run, task in zip(runs, (busy, idle), strict=True):
        run.add(task)
        run.start()
    wait_for(lambda: called[0] >= 3)
    assert woken.acquire(timeout=10) and called[1] == 1
    runs[1].wake()
    assert woken.acquire(timeout=10)
    assert all(run.stop(10, lambda: None) for run in runs)


def test_a_run_that_blocks_the_thread_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others move to another thread as soon as one of them has something to do, or ends."""
    monkeypatch.setattr(shared_thread, "BLOCKED", 0.1)
    free, blocked, turns = threading.Event(), threading.Event(), threading.Semaphore(0)

    def block() -> float:
        blocked.set()
        free.wait(30)
        return 60.0

    def task() -> float:
        turns.release()
        return 60.0

    before = shared_threads()
    one, other, third = SharedBackground(), SharedBackground(), SharedBackground()
    one.add(block)
    other.add(task)
    for run in (one, other, third):
        run.start()
    assert blocked.wait(10)
    time.sleep(0.2)
    while turns.acquire(blocking=False):
        pass
    other.wake()
    assert turns.acquire(timeout=10), "the other run waits for the blocked one"
    assert other.stop(10, lambda: None) and third.stop(10, lambda: None)
    last: list[str] = []
    assert not one.stop(0.1, lambda: last.append("made"))
    one.end()
    assert last == ["made"]
    free.set()
    wait_for(lambda: len(shared_threads()) <= len(before))


def test_tasks_that_fail_and_last_calls_that_fail_leave_the_thread_alive(capsys: pytest.CaptureFixture[str]) -> None:
    """They are reported."""

    def fail() -> float:
        raise ValueError("not today")

    def fail_at_the_end() -> None:
        raise ValueError("not at the end")

    one, other = SharedBackground(), SharedBackground()
    one.add(fail)
    for run in (one, other):
        run.start()
    one.stop(10, fail_at_the_end)
    assert other.stop(10, lambda: None)
    told = capsys.readouterr().err
    assert told.count("not today") == 1 and told.count("not at the end") == 1


def test_a_run_may_end_on_the_thread_itself() -> None:
    """Such as in a function called with an alert."""
    ended = threading.Event()
    run = SharedBackground()

    def end() -> float:
        assert run.stop(10, ended.set)
        return 60.0

    run.add(end)
    run.start()
    assert ended.wait(10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_starts_a_thread_of_its_own(tmp_path: Path) -> None:
    """The parent's is not there."""
    with (
        chiplog.init(project="p", id="first", dir=tmp_path, sinks="none"),
        chiplog.init(project="p", id="second", dir=tmp_path, sinks="none", beside=True),
    ):
        child = os.fork()
        if not child:
            runs = [chiplog.init(project="p", id=f"c{n}", dir=tmp_path, sinks="none", beside=True) for n in range(3)]
            for run in runs:
                run.log({"loss": 1.0})
            os._exit(0 if all(run.finish() for run in runs) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_two_hundred_open_runs_cost_one_thread_and_little_memory(tmp_path: Path) -> None:
    """None of them ends another, and each keeps what was logged to it."""
    with chiplog.init(project="p", id="first", dir=tmp_path, sinks="none") as first:
        threads = threading.active_count()
        runs = [
            chiplog.init(project="p", id=f"t{n}", dir=tmp_path, sinks="none", compact=False, beside=True)
            for n in range(40)
        ]
        for run in runs:
            run.log({"loss": 1.0}, step=0)
        wait_for(lambda: threading.active_count() <= threads + 1)  # the environment is described by threads that end
        assert chiplog.run is first and not any(run.inert for run in (first, *runs))
        assert all(run.finish() for run in runs)
    assert len(chiplog.runs(tmp_path)) == 41
