"""Which ranks are in the group."""

from __future__ import annotations

from array import array
from collections.abc import Collection

import pytest

from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import RankRow, Topic
from chiplog.runtime.ranks.reduce_options import ReduceOptions
from chiplog.runtime.ranks.rounds.group_rounds import GRACE, TICK, Gathers, Membership, RoundTiming
from tests.support.groups import Stuck


class Three(Stuck):
    """Rank 0 of three; rank 2 has recorded that it finished."""

    rank, world = 0, 3

    def left(self) -> Collection[int]:
        return [2]


def test_a_rank_that_finished_without_a_farewell_is_noticed() -> None:
    """Once, and only while it is a member."""
    membership = Membership(Three())
    assert membership.unnoticed() == set()
    membership.form((0, 1, 2))
    assert membership.unnoticed() == {2}
    membership.finish(2)
    assert membership.unnoticed() == set() and membership.finished_here == "2"


def test_the_last_rank_knows_it_in_its_group_and_in_the_run() -> None:
    """A new group forgets who left the previous one; the run does not."""
    membership = Membership(Three())
    membership.form((0, 1, 2))
    membership.finish(2)
    assert not membership.others_left_group and not membership.is_last
    membership.form((0, 1))
    membership.finish(1)
    assert membership.others_left_group and membership.is_last
    membership.form(())
    assert not membership.others_left_group and membership.is_last and membership.was_formed


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


def row(step: int, topic: Topic = Topic.TRAIN, *, counted: bool = False) -> RankRow:
    return RankRow(step, Values(("x",), array("d", [1.0]).tobytes()), 0, topic, counted)


def test_topics_are_gathered_apart() -> None:
    """An evaluation does not complete a training step."""
    gathers = Gathers(0, 2, ReduceOptions())
    gathers.form((0, 1))
    gathers.add_own(row(5), 0.0, 5)
    gathers.add(1, row(5, Topic.EVAL), 0.0)
    assert [(topic, sorted(step.rows)) for topic, step in gathers.rest()] == [(Topic.TRAIN, [0]), (Topic.EVAL, [1])]
    assert gathers.is_empty


def test_training_rows_from_before_the_group_was_formed_are_left_out() -> None:
    """They would be mixed with newer steps; evaluations have their own steps."""
    gathers = Gathers(0, 2, ReduceOptions())
    gathers.form((0, 1), after=7)
    for step in (7, 8):
        gathers.add(1, row(step), 0.0)
        gathers.add(1, row(step, Topic.EVAL), 0.0)
    assert [(topic, step.step) for topic, step in gathers.rest()] == [
        (Topic.TRAIN, 8),
        (Topic.EVAL, 7),
        (Topic.EVAL, 8),
    ]


def test_matched_rows_outlive_the_group() -> None:
    """With the option `order`, what a rank logged before it finished still counts."""
    gathers = Gathers(0, 2, ReduceOptions(sync=True, order=True))
    gathers.form((0, 1))
    gathers.add(1, row(1, counted=True), 0.0)
    gathers.finish(1)
    gathers.form(())
    gathers.add_own(row(1, counted=True), 0.0, 40)
    ((_, step),) = gathers.rest()
    assert (step.step, sorted(step.rows)) == (40, [0, 1])
