"""When rounds start, and how often they are polled."""

from __future__ import annotations

import pytest

from chiplog.runtime.ranks.rounds.round_timing import GRACE, TICK, RoundTiming


def test_rounds_follow_in_ticks_unless_they_are_urgent() -> None:
    """Asynchronously, nobody waits for one."""
    timing = RoundTiming(sync=False, root=True, world=2)
    timing.schedule(100.0, hurry=False)
    assert timing.due == 100.0 + TICK
    timing.schedule(100.0, hurry=True)
    assert timing.due == 100.0 + GRACE


def test_a_rank_learns_to_join_later_when_its_rows_follow() -> None:
    """And sooner when the others waited for it."""
    timing = RoundTiming(sync=True, root=False, world=4)
    for _ in range(10):
        timing.learn(row_waited=True, took=0.1)
    timing.schedule(0.0, hurry=False)
    assert timing.due == TICK
    timing.learn(row_waited=False, took=0.0)
    timing.schedule(0.0, hurry=False)
    assert timing.due == GRACE


def test_polls_of_an_incomplete_group_become_rarer() -> None:
    """Up to a limit that depends on the number of ranks, until the group has been formed once."""
    timing = RoundTiming(sync=False, root=True, world=1000)
    assert [timing.form_poll(was_formed=False) for _ in range(8)][-1] == pytest.approx(0.5)
    small = RoundTiming(sync=False, root=True, world=2)
    assert [small.form_poll(was_formed=False) for _ in range(8)][-1] == 0.02


def test_a_long_round_is_polled_less_often() -> None:
    """Synchronous callers poll the most often."""
    sync, later = RoundTiming(sync=True, root=True, world=2), RoundTiming(sync=False, root=True, world=2)
    assert sync.round_poll(1e6, 0.0, idle=False) < later.round_poll(1e6, 0.0, idle=False)
    assert later.round_poll(1e6, 0.0, idle=False) < later.round_poll(1e6, 10.0, idle=False) == 0.02
