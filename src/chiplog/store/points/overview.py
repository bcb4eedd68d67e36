"""A series at a glance: its last value, its range and its course, without its points where parts have blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chiplog.core.records import Number
from chiplog.store.points.blocks import Blocks
from chiplog.store.points.columns import Floats


class Overview(NamedTuple):
    """A series of the main rank in the default view; its blocks are by step, of one point each if it is short."""

    name: str
    last: Number
    blocks: Blocks

    @property
    def points(self) -> int:
        return int(self.blocks.counts.sum())

    @property
    def nans(self) -> int:
        return int(self.blocks.nans.sum())

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest value; None if all are NaN."""
        if self.points == self.nans:
            return None
        return float(np.nanmin(self.blocks.min)), float(np.nanmax(self.blocks.max))

    @property
    def extremes(self) -> Floats:
        """The values, or where there are many the lowest and highest of each block: NaN if it has one."""
        low, high, nans = self.blocks.min, self.blocks.max, self.blocks.nans
        if self.points == len(low):
            return low
        both = np.stack([low, high], axis=1)
        both[nans > 0] = np.nan
        return both.reshape(-1)
