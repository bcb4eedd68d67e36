"""Functions that are not called from within their own call."""

from __future__ import annotations

import threading

import pytest

from chiplog.core import messages
from chiplog.core.engine.reentry_guard import ReentryGuard, is_ours
from chiplog.metrics.rules.outliers import Outliers


def test_a_call_from_within_is_left_out_and_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    """On the same thread; another thread may call it meanwhile."""
    messages.forget()
    calls: list[str] = []

    def work(depth: int) -> str:
        calls.append(threading.current_thread().name)
        if depth:
            assert once(depth - 1) is None
            assert once(depth - 1) is None
            other = threading.Thread(target=once, args=(0,), name="other")
            other.start()
            other.join()
        return "done"

    once = ReentryGuard(work, "a rule")
    assert once(1) == "done" and once(0) == "done"
    assert calls == ["MainThread", "other", "MainThread"]
    assert capsys.readouterr().err.count("a rule calls `log`") == 1


def test_an_error_ends_the_call() -> None:
    once = ReentryGuard(lambda: 1 / 0, "a rule")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            once()


def test_rules_of_chiplog_are_ours() -> None:
    assert is_ours(Outliers()) and not is_ours(print) and not is_ours(test_rules_of_chiplog_are_ours)
