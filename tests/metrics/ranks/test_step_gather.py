"""When a step of many ranks is complete."""

from __future__ import annotations

from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import SETTLED, RankRow, StepGather

NONE = Values((), b"")


def say(tally: StepGather, rank: int, *steps: float, now: float = 0.0) -> None:
    for step in steps:
        tally.add(rank, RankRow(step, NONE), now)


def done(tally: StepGather, now: float = 0.0) -> list[tuple[float, list[int]]]:
    tally.end_round()
    return [(gathered.step, sorted(gathered.rows)) for gathered in tally.ready(now)]


def test_a_step_is_complete_when_all_are_past_it() -> None:
    """Not before: a step may be logged in several calls."""
    tally = StepGather([0, 1], 10)
    say(tally, 0, 1, 2)
    say(tally, 1, 1)
    assert done(tally) == []
    say(tally, 1, 1, 2)
    assert done(tally) == [(1, [0, 1])]


def test_ranks_may_be_ahead_behind_and_skip() -> None:
    tally = StepGather([0, 1], 10)
    say(tally, 0, 1, 2, 3, 4)
    assert done(tally) == []
    say(tally, 1, 2, 4)
    assert done(tally) == [(1, [0]), (2, [0, 1]), (3, [0])]


def test_what_everybody_has_said_is_given_out_after_a_moment() -> None:
    """The last step before a long evaluation is not held back until the next."""
    tally = StepGather([0, 1], 10)
    say(tally, 0, 7)
    say(tally, 1, 7)
    assert done(tally, SETTLED / 2) == []
    assert done(tally, SETTLED * 2) == [(7, [0, 1])]


def test_a_silent_rank_is_waited_for_once() -> None:
    """Then steps come without it, until it speaks again."""
    tally = StepGather([0, 1], 10)
    say(tally, 0, 1, 2, 3)
    assert done(tally, 9.0) == []
    assert done(tally, 11.0) == [(1, [0]), (2, [0]), (3, [0])]
    say(tally, 0, 4, 5, now=12.0)
    assert done(tally, 12.0) == [(4, [0])]
    say(tally, 1, 5, now=13.0)
    say(tally, 0, 6, 7, now=13.0)
    assert done(tally, 13.0) == []
    say(tally, 1, 6, now=13.0)
    assert done(tally, 13.0) == [(5, [0, 1])]


def test_a_rank_that_has_left_is_not_waited_for() -> None:
    tally = StepGather([0, 1], 10)
    say(tally, 1, 1)
    tally.leave(1)
    say(tally, 0, 1, 2)
    assert done(tally) == [(1, [0, 1])]
    assert [gathered.step for gathered in tally.rest()] == [2]
    assert len(tally) == 0


def test_a_caller_waits_for_as_many_rows_as_it_has_logged() -> None:
    """Or until a rank is past the step."""
    tally = StepGather([0, 1, 2], 10)
    say(tally, 0, 5, 5)
    say(tally, 1, 5)
    say(tally, 2, 6)
    assert tally.is_complete(5, 1, 0.0) and not tally.is_complete(5, 2, 0.0)
    say(tally, 1, 5)
    assert tally.is_complete(5, 2, 0.0)
    assert not tally.is_complete(9, 1, 0.0)


def test_a_caller_waits_no_longer_than_patience() -> None:
    tally = StepGather([0, 1], 10)
    say(tally, 0, 5)
    assert not tally.is_complete(5, 1, 9.0) and tally.is_complete(5, 1, 11.0)
    say(tally, 0, 6, now=12.0)
    assert tally.is_complete(6, 1, 0.0)


def test_a_caller_gets_as_many_rows_of_each_rank() -> None:
    """What a rank has said beyond belongs to the next call."""
    tally = StepGather([0, 1], 10)
    say(tally, 0, 5)
    say(tally, 1, 5, 5)
    assert {rank: len(said) for rank, said in tally.gathered(5, 1).rows.items()} == {0: 1, 1: 1}
    assert {rank: len(said) for rank, said in tally.gathered(5).rows.items()} == {0: 1, 1: 2}


def test_a_step_that_is_no_number_and_a_stranger_are_left_out() -> None:
    tally = StepGather([0], 10)
    say(tally, 0, float("nan"))
    say(tally, 5, 1)
    assert len(tally) == 0 and tally.oldest(3) == 3
