"""Lanes for stretches of time that overlap."""

from __future__ import annotations

import random

import pytest

from chiplog.views.trace.lanes import Lanes


def test_no_two_lie_on_a_lane_at_one_time() -> None:
    """Each goes on the first lane that is free; what ends where another begins leaves it free."""
    lanes = Lanes()
    assert [lanes.place(*one) for one in ((0, 10), (0, 5), (5, 7), (10, 12), (11, 11))] == [0, 1, 1, 0, 1]
    assert len(lanes) == 2


def test_nested_stretches_share_a_lane() -> None:
    """What lies inside another needs no lane of its own; what crosses it does."""
    lanes = Lanes(nested=True)
    assert [lanes.place(*one) for one in ((0, 10), (2, 8), (3, 8), (9, 12), (10, 11))] == [0, 0, 0, 1, 0]


def test_a_stretch_may_begin_further_down() -> None:
    """Below the one it lies in; the lanes between are there and empty."""
    lanes = Lanes()
    assert lanes.place(0, 10) == 0 and lanes.place(1, 9, first=2) == 2 and len(lanes) == 3
    assert lanes.place(2, 3) == 1 and lanes.place(4, 5, first=2) == 3


def test_what_finds_no_place_lies_on_the_last_lane() -> None:
    """A picture has an end."""
    lanes = Lanes(most=2)
    assert [lanes.place(n, 100) for n in range(4)] == [0, 1, 1, 1] and len(lanes) == 2


@pytest.mark.parametrize("nested", [False, True])
def test_many_lanes_are_assigned_like_few(nested: bool) -> None:
    """The search among many finds the first one with room, as trying one after the other would."""
    pick = random.Random(1)
    for _ in range(50):
        lanes, tried = Lanes(nested=nested), list[list[int]]()
        starts = sorted(pick.randrange(60) for _ in range(150))
        for start, end in sorted(((at, at + pick.randrange(40)) for at in starts), key=lambda one: (one[0], -one[1])):
            first = pick.choice([0, 0, 0, 3, min(20, len(tried))])
            for number in range(first, len(tried) + first + 1):
                tried += [[] for _ in range(number + 1 - len(tried))]
                tried[number] = [one for one in tried[number] if one > start]
                if not tried[number] or (nested and end <= tried[number][-1]):
                    tried[number].append(end)
                    break
            assert lanes.place(start, end, first) == number and len(lanes) == len(tried)
