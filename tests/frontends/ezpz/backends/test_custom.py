"""Backends of your own, called directly and from the queue of a rank without a journal."""

from __future__ import annotations

import logging

import pytest

from chiplog.frontends.ezpz.backends.custom import DirectCalls, QueuedCalls, name_of


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
    direct = DirectCalls([first, second])
    with caplog.at_level(logging.WARNING):
        direct.call("log", {"loss": 1.0})
        direct.call("log", {"loss": 2.0})
        direct.call("log_image", "key", "path")
    assert [call[0] for call in second.calls] == [{"loss": 1.0}, {"loss": 2.0}]  # type: ignore[index]
    assert caplog.text.count("backend backend.log() failed: ZeroDivisionError") == 1


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
