"""Blocks: consecutive points as one."""

from __future__ import annotations

import numpy as np

from chiplog.store.points.blocks import Blocks, blocks, each, join, merge

STEPS = np.arange(10)
VALUES = np.array([0.0, 1, 2, np.nan, 4, np.inf, 6, 7, 8, 9])


def _plain(one: Blocks) -> list[list[float]]:
    return [column.tolist() for column in one]


def test_blocks_of_one_point_merge_into_larger_ones() -> None:
    """With the same numbers as blocks of the points themselves."""
    starts = np.array([0, 3, 6])
    assert _plain(merge(each(STEPS, VALUES), starts)) == _plain(blocks(STEPS, VALUES, starts))
    assert blocks(STEPS, VALUES, starts).total.tolist() == [3.0, 4.0, 30.0]


def test_joined_blocks_are_by_step() -> None:
    """Also of pieces that overlap."""
    both = join([each(STEPS[5:], VALUES[5:]), each(STEPS[:6], VALUES[:6])])
    assert both.low.tolist() == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9] and both.nans.sum() == 1
