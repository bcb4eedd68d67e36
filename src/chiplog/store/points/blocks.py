"""Blocks: consecutive points of a series as one, so that a long series is drawn without reading its points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chiplog.store.points.columns import Floats, Ints, Steps

SIZE = 512  # points per block
LONG = 8 * SIZE  # points of a series that is worth blocks


class Blocks(NamedTuple):
    """Points in blocks by step, each with its first and last step; `min` and `max` ignore NaN."""

    low: Steps
    high: Steps
    min: Floats
    max: Floats
    total: Floats  # of the finite values
    finite: Ints  # how many of them
    counts: Ints
    nans: Ints


def blocks(steps: Steps, values: Floats, starts: Ints | None = None) -> Blocks:
    """Points by step, in blocks that start at these indices; every `SIZE` points without them."""
    if starts is None:
        starts = np.arange(0, len(steps), SIZE)
    ends = np.append(starts[1:], len(steps))
    counts = (ends - starts).astype(np.int64)
    with np.errstate(all="ignore"):
        total = np.add.reduceat(values, starts)
        if np.isfinite(total).all():  # the usual case, and the cheaper one
            lowest, highest = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
            finite, nans = counts, np.zeros(len(starts), np.int64)
        else:
            lowest, highest = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
            mask = np.isfinite(values)
            finite = np.add.reduceat(mask.astype(np.int64), starts)
            total = np.add.reduceat(np.where(mask, values, 0.0), starts)
            nans = np.add.reduceat(np.isnan(values).astype(np.int64), starts)
    return Blocks(steps[starts], steps[ends - 1], lowest, highest, total, finite, counts, nans)


def each(steps: Steps, values: Floats) -> Blocks:
    """Blocks of one point."""
    finite = np.isfinite(values)
    ones = np.ones(len(values), np.int64)
    nans = np.isnan(values).astype(np.int64)
    return Blocks(steps, steps, values, values, np.where(finite, values, 0.0), finite.astype(np.int64), ones, nans)


def join(pieces: Sequence[Blocks]) -> Blocks:
    """Blocks of several pieces by their first step; blocks of different pieces may overlap."""
    if len(pieces) == 1:
        return pieces[0]
    whole = Blocks._make(np.concatenate(column) for column in zip(*pieces, strict=True))
    if bool(np.all(whole.low[1:] >= whole.low[:-1])):
        return whole
    order = np.argsort(whole.low, kind="stable")
    return Blocks._make(column[order] for column in whole)


def merge(fine: Blocks, starts: Ints) -> Blocks:
    """Consecutive blocks as one."""
    with np.errstate(all="ignore"):
        return Blocks(
            fine.low[starts],
            np.maximum.reduceat(fine.high, starts),
            np.fmin.reduceat(fine.min, starts),
            np.fmax.reduceat(fine.max, starts),
            *(np.add.reduceat(column, starts) for column in fine[4:]),
        )
