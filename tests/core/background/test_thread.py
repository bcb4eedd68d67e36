"""The background thread: tasks in turn, wake-ups, and the last call."""

from __future__ import annotations

import threading

import pytest

from chiplog.core.background.thread import Background


def test_a_task_is_called_again_when_woken() -> None:
    """Before it is due."""
    called = threading.Semaphore(0)

    def task() -> float:
        called.release()
        return 60.0

    background = Background("test")
    background.add(task)
    background.start()
    assert called.acquire(timeout=10)
    background.wake()
    assert called.acquire(timeout=10)
    assert background.stop(10, lambda: None)


def test_a_task_that_raises_is_reported_and_others_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Once, however often it fails."""
    called = threading.Event()

    def fail() -> float:
        raise ValueError("not today")

    def task() -> float:
        called.set()
        return 60.0

    background = Background("test")
    background.add(fail)
    background.add(task)
    background.start()
    assert called.wait(10) and background.stop(10, lambda: None)
    assert capsys.readouterr().err.count("not today") == 1


def test_the_last_call_is_made_once_on_the_thread() -> None:
    """Or on the caller's, if the thread never started."""
    names: list[str] = []
    background = Background("test")
    background.start()
    assert background.stop(10, lambda: names.append(threading.current_thread().name))
    background.end()
    unstarted = Background("test")
    assert unstarted.stop(10, lambda: names.append(threading.current_thread().name))
    assert names == ["chiplog-test", threading.current_thread().name]
