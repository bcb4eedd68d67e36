"""A backend of one's own beside ours: one bad call, and an outage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chiplog.frontends.kempnerforge.metrics.tracker import MetricsTracker
from tests.frontends.kempnerforge.job import job


class Fails:
    """Raises for some rows; keeps the others."""

    def __init__(self, fails: Callable[[int], bool]) -> None:
        self.fails, self.steps, self.tries, self.closed = fails, [], 0, 0

    def log(self, metrics: dict[str, object], step: int) -> None:
        self.tries += 1
        if self.fails(step):
            raise OSError("no wind")
        self.steps.append(step)

    def close(self) -> None:
        self.closed += 1


def train(backend: Fails, steps: int) -> MetricsTracker:
    tracker = MetricsTracker(job())
    tracker._backends.append(backend)
    for step in range(1, steps + 1):
        tracker.log_eval({"eval/loss": 1.0}, step)
    return tracker


def test_one_bad_call_is_retried_then_skipped_and_counted(capfd: pytest.CaptureFixture[str]) -> None:
    """Everything later is delivered, and the backend is closed."""
    backend = Fails(lambda step: step == 3)
    train(backend, 6).close()
    assert backend.steps == [1, 2, 4, 5, 6] and backend.closed == 1 and backend.tries > 7
    said = capfd.readouterr().err
    assert said.count("Fails fails: no wind") == 1 and "Fails has not accepted 1 row (OSError: no wind)" in said


def test_rows_of_an_outage_are_delivered_after_it(capfd: pytest.CaptureFixture[str]) -> None:
    """None is skipped, and they keep their order."""
    backend = Fails(lambda step: True)
    tracker = train(backend, 3)
    backend.fails = lambda step: False
    tracker.log_eval({"eval/loss": 1.0}, 4)
    tracker.close()
    assert backend.steps == [1, 2, 3, 4] and "has not accepted" not in capfd.readouterr().err
