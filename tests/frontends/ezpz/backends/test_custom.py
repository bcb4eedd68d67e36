"""Backends of your own, called directly and from the queue of a rank without a journal."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from chiplog.frontends.ezpz.backends.custom import DirectBackends, QueuedCalls, name_of


class Backend:
    """Remembers its calls; one metric makes it raise."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def log(self, metrics: dict[str, object], step: int | None = None, commit: bool = True) -> None:
        if "bad" in metrics:
            raise ValueError("no")
        self.calls.append((metrics, step, commit))

    def finish(self) -> None:
        self.calls.append("finish")


def test_a_failing_backend_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """The others get the call, and a method that a backend lacks is left out."""
    first, second = Backend(), Backend()
    first.log = lambda *_, **__: 1 / 0  # type: ignore[assignment,method-assign]
    direct = DirectBackends([first, second])
    with caplog.at_level(logging.WARNING):
        direct.call("log", {"loss": 1.0})
        direct.call("log", {"loss": 2.0})
        direct.call("log_image", "key", "path")
    assert [call[0] for call in second.calls] == [{"loss": 1.0}, {"loss": 2.0}]  # type: ignore[index]
    assert caplog.text.count("backend backend.log() failed: ZeroDivisionError") == 1


class Fails(Backend):
    """Raises for some rows, or for all during an outage."""

    def __init__(self, bad: int = -1, *, down: bool = False) -> None:
        super().__init__()
        self.bad, self.down, self.tried = bad, down, threading.Event()

    def log(self, metrics: dict[str, object], step: int | None = None, commit: bool = True) -> None:
        self.tried.set()
        if self.down or step == self.bad:
            raise OSError("no wind")
        self.calls.append(step)

    def log_config(self, config: dict[str, object]) -> None:
        self.calls.append(config)


@pytest.mark.parametrize("kind", [DirectBackends, QueuedCalls])
def test_a_bad_call_is_retried_then_skipped_and_counted(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    """On the thread of the training and from a queue: everything later is made, and `finish`."""
    backend = Fails(bad=1)
    calls = kind([backend])
    for step in range(4):
        calls.call("log", {"loss": 1.0}, step=step, commit=True)
    calls.finish(20.0)
    assert backend.calls == [0, 2, 3, "finish"]
    assert caplog.text.count("backend fails.log() failed: OSError: no wind") == 1
    assert caplog.text.count("backend fails has not accepted 1 call (OSError: no wind)") == 1


@pytest.mark.parametrize("kind", [DirectBackends, QueuedCalls])
def test_calls_of_an_outage_are_made_after_it(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    """As they were, and in their order; none is skipped."""
    backend, config = Fails(down=True), {"lr": 1.0}
    calls = kind([backend])
    for step in range(3):
        calls.call("log", {"loss": 1.0}, step=step, commit=True)
    calls.call("log_config", config)
    config["lr"] = 2.0
    assert backend.tried.wait(20)
    backend.down = False
    calls.finish(20.0)
    assert backend.calls == [0, 1, 2, {"lr": 1.0}, "finish"] and "accepted" not in caplog.text


def test_queued_calls_are_made_in_order() -> None:
    """Rows as they were when they were logged, and `finish` at the end."""
    backend = Backend()
    queued = QueuedCalls([backend])
    row = {"train": {"loss": 1.0}, "vector": [1, 2]}
    queued.log(row, 0, True)
    row["vector"] = []
    queued.log({"bad": 1.0}, 1, True)
    queued.log({"loss": 2.0}, 2, False)
    queued.finish(20.0)
    assert backend.calls == [
        ({"train/loss": 1.0, "vector": [1, 2]}, 0, True),
        ({"loss": 2.0}, 2, False),
        "finish",
    ]
    queued.call("finish")  # after the end, nothing is called
    assert backend.calls.count("finish") == 1


def test_the_name_of_a_backend() -> None:
    """Its own, or that of its class, in lowercase."""
    assert name_of(Backend()) == "backend"
    assert name_of(type("B", (), {"name": "Mine"})()) == "mine"
