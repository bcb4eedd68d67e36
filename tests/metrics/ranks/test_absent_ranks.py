"""Which ranks are waited for."""

from __future__ import annotations

from chiplog.metrics.ranks.absent_ranks import Attendance


def test_a_rank_that_is_always_late_is_given_up() -> None:
    """It gets a second chance; then it has to catch up."""
    attendance = Attendance([0, 1])
    attendance.give_up([1])
    attendance.report(1, caught_up=False)
    assert attendance.absent == set()
    attendance.give_up([1])
    attendance.report(1, caught_up=False)
    assert attendance.absent == {1}
    attendance.report(1, caught_up=True)
    attendance.forgive([1])
    assert attendance.absent == set() and not attendance.is_behind(1)


def test_a_rank_that_has_left_is_neither_expected_nor_absent() -> None:
    """Not even if a row of it arrives afterwards, or a new group is formed."""
    attendance = Attendance([0, 1])
    attendance.leave(1)
    attendance.report(1, caught_up=True)
    assert (attendance.expected, attendance.absent) == ({0}, set())
    attendance.form([0, 1, 2])
    assert attendance.expected == {0, 2}
