"""The default view: what newer attempts hide of older ones.

A newer launch hides older points from its first step on, unless the two were written at the same time. So does a launch
without this rank, if the main rank has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from chiplog.core.records import Number
from chiplog.store.points.columns import Column, Steps, take


class AttemptPoints(Protocol):
    """The points of one rank in one attempt, as the default view needs them."""

    rank: int
    attempt: int
    launch: str
    start: int
    end: int

    @property
    def first_step(self) -> Number | None: ...

    def column(self, name: str) -> Column: ...


A = TypeVar("A", bound=AttemptPoints)


def view(
    name: str, streams: Sequence[A], main: Sequence[AttemptPoints] = (), attempt: int | None = None
) -> list[tuple[A, Column]]:
    """The visible points of a series on one rank, oldest attempt first; all points of an attempt if one is given."""
    if attempt is not None:
        return [(stream, stream.column(name)) for stream in streams if stream.attempt == attempt]
    visible = []
    for stream, limit in with_limits(streams, main):
        column = stream.column(name)
        mask = before(column.steps, limit)
        visible.append((stream, column if mask is None else take(column, mask)))
    return visible


def with_limits(streams: Sequence[A], main: Sequence[AttemptPoints] = ()) -> Iterator[tuple[A, Number | None]]:
    """The attempts of one rank, oldest first, with the step from which newer ones hide each; None if none does."""
    streams = sorted(streams, key=lambda stream: stream.attempt)  # the order they started in, whatever the clocks show
    launches = {stream.launch for stream in streams}
    order = {stream.launch: stream.attempt for stream in main}
    own = _that_hide(streams)
    others = _that_hide([stream for stream in main if stream.launch not in launches])
    for stream in streams:
        hiding = [(newer, step) for newer, step in own if newer.attempt > stream.attempt]
        if stream.launch in order:
            hiding += [(newer, step) for newer, step in others if newer.attempt > order[stream.launch]]
        yield stream, _lowest([step for newer, step in hiding if not _is_beside(stream, newer)])


def _that_hide(streams: Sequence[AttemptPoints]) -> list[tuple[AttemptPoints, Number]]:
    """Those that have logged a step, with the first; a run may have many attempts that ended before."""
    return [(stream, step) for stream in streams if (step := stream.first_step) is not None]


def before(steps: Steps, limit: Number | None) -> NDArray[np.bool_] | None:
    """A mask of the steps before a limit; None if all are. There are none before NaN."""
    if limit is None:
        return None
    mask: NDArray[np.bool_] = steps < limit
    return None if bool(mask.all()) else mask


def _lowest(steps: list[Number]) -> Number | None:
    return next((step for step in steps if step != step), min(steps, default=None))


def _is_beside(stream: AttemptPoints, newer: AttemptPoints) -> bool:
    """Whether a newer attempt belongs to the same launch, or was written at the same time.

    An attempt whose clock is before ours is newer all the same: that clock is wrong.
    """
    return newer.launch == stream.launch or max(stream.start, newer.start) <= min(stream.end, newer.end)
