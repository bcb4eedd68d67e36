"""Calls to a backend on the thread that logs."""

from __future__ import annotations

import pytest

from chiplog.sinks.adapters import direct_calls
from chiplog.sinks.adapters.direct_calls import DirectCalls


def test_an_interrupt_reaches_the_caller_and_is_not_a_failure() -> None:
    """A Ctrl-C during a call ends the training, as without us; the call is not repeated."""
    failures: list[BaseException] = []
    made: list[int] = []
    calls = DirectCalls(failures.append)

    def interrupted() -> None:
        made.append(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calls.call(interrupted)
    calls.call(lambda: made.append(2))
    assert made == [1, 2] and failures == [] and calls.close() == 0


def test_what_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an outage only so many calls wait."""
    monkeypatch.setattr(direct_calls, "MOST", 3)
    failures: list[BaseException] = []
    calls = DirectCalls(failures.append)
    for _ in range(5):
        calls.call(lambda: 1 / 0)
    assert len(failures) == 5 and calls.close() == 5
