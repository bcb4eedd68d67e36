"""The clock of an attempt never jumps, and tells of the wall clock's jumps."""

from __future__ import annotations

from chiplog.core.clock import RunClock

SECOND = 1_000_000_000
YEARS = 10 * 365 * 86_400 * SECOND


def test_a_jump_of_the_wall_clock_is_told_once_and_changes_no_time() -> None:
    """Ten years forward and back again are two jumps."""
    wall, mono = [100 * SECOND], [5 * SECOND]
    clock = RunClock(lambda: wall[0], lambda: mono[0])
    assert clock.now() == 100 * SECOND and clock.jump() is None
    wall[0] += YEARS
    mono[0] += SECOND
    assert clock.now() == 101 * SECOND
    assert clock.jump() == (wall[0], YEARS - SECOND)
    assert clock.jump() is None
    wall[0] = 102 * SECOND
    mono[0] += SECOND
    assert clock.jump() == (102 * SECOND, -(YEARS - SECOND))


def test_a_small_drift_is_no_jump() -> None:
    """What ntp does all day is not worth a record."""
    wall, mono = [0], [0]
    clock = RunClock(lambda: wall[0], lambda: mono[0])
    wall[0] += SECOND // 2
    assert clock.jump() is None
