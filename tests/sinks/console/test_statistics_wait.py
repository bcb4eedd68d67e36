"""Rows that wait for their statistics across ranks."""

from __future__ import annotations

from chiplog.sinks.console.statistics_wait import MISSES, MOST, PATIENCE, StatisticsWait
from chiplog.sinks.shared.rows import Row


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def row(step: int) -> Row:
    return Row(step, 0, {"loss": 1.0})


def waiting(statistics: str = "async") -> tuple[StatisticsWait, Clock]:
    clock = Clock()
    wait = StatisticsWait(clock)
    wait.expect(statistics)
    return wait, clock


def test_a_row_waits_for_its_statistics_and_comes_with_them() -> None:
    """Rows keep their order: the second has its statistics first and still comes second."""
    wait, _ = waiting()
    assert wait.add(row(0)) == [] and wait.add(row(1)) == []
    assert wait.join(1, {"loss/max": 2.0}) and wait.ready() == []
    assert wait.join(0, {"loss/max": 3.0})
    assert [(one.row.step, one.statistics) for one in wait.ready()] == [(0, {"loss/max": 3.0}), (1, {"loss/max": 2.0})]


def test_statistics_may_come_before_the_row() -> None:
    """A row of which this rank is still logging values."""
    wait, _ = waiting()
    assert not wait.join(4, {"loss/max": 2.0})
    assert [one.statistics for one in wait.add(row(4))] == [{"loss/max": 2.0}]


def test_a_row_does_not_wait_too_long() -> None:
    """It is shown without statistics; after some of these, no row waits until there are statistics again."""
    wait, clock = waiting()
    for step in range(MISSES):
        assert wait.active and wait.add(row(step)) == []
        clock.now += PATIENCE + 0.1
        assert [one.statistics for one in wait.ready()] == [None]
    assert not wait.active
    assert [one.row.step for one in wait.add(row(9))] == [9]
    wait.join(9, {"loss/max": 2.0})
    assert wait.active


def test_no_more_than_so_many_rows_wait() -> None:
    """A rank that logs fast does not fill the memory."""
    wait, _ = waiting()
    shown = [one for step in range(MOST + 50) for one in wait.add(row(step))]
    assert shown[0].row.step == 0 and len(wait.drain()) <= MOST


def test_nothing_waits_without_statistics_in_the_background() -> None:
    """Statistics that are part of the row need no waiting."""
    for kind in ("sync", ""):
        wait, _ = waiting(kind)
        assert wait.inline == (kind == "sync")
        assert [one.row.step for one in wait.add(row(0))] == [0]
