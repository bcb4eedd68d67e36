"""When a delivery is retried, and when it is given up."""

from __future__ import annotations

from chiplog.sinks.delivery.retries import BACK_OFF, LAST_TRIES, Retries, RetryClock


class Clock(RetryClock):
    """A clock that a test sets."""

    time = 100.0

    def now(self) -> float:
        return self.time


def test_pauses_double_up_to_the_longest() -> None:
    """During a run, nothing is given up."""
    retries = Retries(Clock())
    pauses = []
    for failures in range(1, 20):
        retries.failures = failures
        pauses.append(retries.pause())
        assert not retries.exhausted()
    assert pauses[:3] == [0.5, 1.0, 2.0] and pauses[-1] == BACK_OFF[1]


def test_a_service_is_tried_until_it_makes_no_progress() -> None:
    """After the end of the run, for the patience since it last accepted something."""
    clock = Clock()
    retries = Retries(clock)
    retries.commits = True
    retries.close(60.0)
    retries.failures = 10 * LAST_TRIES
    clock.time += 59
    assert not retries.exhausted() and retries.pause() == 1.0
    retries.moved()
    clock.time += 59
    assert not retries.exhausted()
    clock.time += 1
    assert retries.exhausted()


def test_any_other_sink_is_tried_a_few_times() -> None:
    """In a row, after the end of the run, and in half of the time at most."""
    clock = Clock()
    retries = Retries(clock)
    retries.close(10.0)
    retries.failures = LAST_TRIES - 1
    assert not retries.exhausted() and retries.pause() == BACK_OFF[0]
    retries.failures += 1
    assert retries.exhausted()
    retries.failures = 1
    clock.time += 6
    assert retries.exhausted()
