"""Which ranks are in the group."""

from __future__ import annotations

from collections.abc import Collection

from chiplog.runtime.ranks.rounds.membership import Membership
from tests.runtime.ranks.rounds.test_thread import Stuck


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
