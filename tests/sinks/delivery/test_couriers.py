"""The end of a delivery: backends that are too slow are closed, and what they did not get is counted."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

import chiplog
from chiplog.sinks.delivery import courier


class Slow:
    """A backend that takes a moment for each call, until it is released."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.closed = 0
        self.released = threading.Event()
        self.under_way = threading.Event()

    def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
        self.under_way.set()
        self.released.wait(0.1)
        self.values.append(value)

    def close(self) -> None:
        self.closed += 1


def test_a_slow_backend_is_closed_and_what_it_lacks_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The call that is under way ends first; the number is that of calls, and not of records."""
    monkeypatch.setattr(courier, "POLL", 0.01)
    run = chiplog.init("p", sinks=[Slow], alerts=False)
    slow: Any = run.sink("slow")
    for step in range(160):
        run.log({"a": float(step)}, step=step)
    done = run.finish(timeout=3.0)
    left = 160 - len(slow.values)
    assert not done and left > 0
    assert slow.closed == 1
    assert slow.values == [float(step) for step in range(len(slow.values))]
    assert done.missing == {"slow": f"{left} calls are not delivered (it did not take them in time)"}
    assert capsys.readouterr().err.count(f"{left} calls are not delivered") == 1


def test_records_that_were_not_read_yet_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those behind the batch that was under way."""
    monkeypatch.setattr(courier, "POLL", 0.01)
    run = chiplog.init("p", sinks=[Slow], alerts=False)
    slow: Any = run.sink("slow")
    run.log({"a": 0.0}, step=0)
    slow.under_way.wait(10)
    for step in range(1, 100):
        run.log({"a": 1.0, "b": 2.0}, step=step)
    done = run.finish(timeout=2.0)
    assert slow.closed == 1
    assert done.missing["slow"].startswith(f"{199 - len(slow.values)} calls are not delivered")


def test_a_backend_that_hangs_in_a_call_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed when it answers again."""
    monkeypatch.setattr(courier, "POLL", 0.01)
    called, answered, closed = threading.Event(), threading.Event(), threading.Event()

    class Hanging:
        def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
            called.set()
            answered.wait(30)

        def close(self) -> None:
            closed.set()

    run = chiplog.init("p", sinks=[Hanging], alerts=False)
    run.log({"a": 1.0, "b": 2.0}, step=0)
    assert called.wait(30)
    done = run.finish(timeout=1.0)
    # Counted in bytes where it hung before the end of the journal was read.
    assert re.fullmatch(
        r"(2 calls|\d+ bytes of journal) are not delivered \(it did not answer in time\)", done.missing["hanging"]
    )
    answered.set()
    assert closed.wait(10)
