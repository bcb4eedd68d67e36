"""Events with one 32-bit scalar each, which are most of an event file, decoded in columns.

Such an event is a time, a step, and bytes that are the same for every value of a tag. Events of equal length are
compared together; whatever is not exactly of this shape is left to the decoder of single events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chiplog.store.points.columns import Floats, Ints

TagOf: TypeAlias = Callable[[bytes, bytes], int | None]

FEW = 16  # events of one length that are not worth columns
LONGEST = 1024  # bytes of an event in columns
_WEIGHTS = np.random.default_rng(0).integers(1, 2**63, LONGEST, np.uint64) | np.uint64(1)


class ScalarEvents(NamedTuple):
    """Decoded events: their numbers in the chunk, and the columns."""

    at: Ints
    which: Ints
    steps: Ints
    walls: Floats
    values: Floats

    def take(self, chosen: Ints | slice) -> ScalarEvents:
        return ScalarEvents(
            self.at[chosen], self.which[chosen], self.steps[chosen], self.walls[chosen], self.values[chosen]
        )

    def then(self, *others: ScalarEvents) -> ScalarEvents:
        """These and others, in the order of their numbers."""
        every = (self, *others)
        joined = ScalarEvents(
            np.concatenate([one.at for one in every]),
            np.concatenate([one.which for one in every]),
            np.concatenate([one.steps for one in every]),
            np.concatenate([one.walls for one in every]),
            np.concatenate([one.values for one in every]),
        )
        return joined.take(np.argsort(joined.at, kind="stable"))


NONE = ScalarEvents(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))


def decode(data: bytes, spans: list[tuple[int, int]], tag_of: TagOf) -> tuple[ScalarEvents, list[int]]:
    """The scalars among the events of a chunk, in order, and the numbers of all other events.

    `tag_of` gets the bytes before a value and one event with them, and returns the index of the tag, or None.
    """
    places = np.array(spans, np.int64).reshape(-1, 2)
    lengths = places[:, 1] - places[:, 0]
    whole = np.frombuffer(data, np.uint8)
    decoded: list[ScalarEvents] = []
    for length in np.unique(lengths).tolist():
        chosen = np.flatnonzero(lengths == length)
        if len(chosen) >= FEW and 24 < length <= LONGEST:
            rows = whole[places[chosen, 0][:, np.newaxis] + np.arange(length)]
            decoded += _of_length(rows, chosen, data, spans, tag_of)
    scalars = NONE.then(*decoded)
    left = np.ones(len(spans), bool)
    left[scalars.at] = False
    return scalars, np.flatnonzero(left).tolist()


def _of_length(
    rows: NDArray[np.uint8], numbers: Ints, data: bytes, spans: list[tuple[int, int]], tag_of: TagOf
) -> list[ScalarEvents]:
    """Of events of one length: those with a time and a step, by the number of bytes of the step."""
    decoded: list[ScalarEvents] = []
    waiting = (rows[:, 0] == 9) & (rows[:, 9] == 16)
    steps = np.zeros(len(rows), np.uint64)
    for size in range(1, 10):  # a tenth byte is that of a negative step
        if not waiting.any() or 10 + size + 4 >= rows.shape[1]:
            break
        byte = rows[:, 9 + size]
        steps |= (byte & np.uint8(127)).astype(np.uint64) << np.uint64(7 * (size - 1))
        ending = waiting & (byte < 128)
        waiting &= byte >= 128
        chosen = np.flatnonzero(ending)
        if len(chosen):
            which = _tags(rows[chosen, 10 + size : -4], numbers[chosen], data, spans, tag_of)
            named = which >= 0
            chosen = chosen[named]
            walls = np.ascontiguousarray(rows[chosen, 1:9]).view("<f8")[:, 0]
            values = np.ascontiguousarray(rows[chosen, -4:]).view("<f4")[:, 0].astype(np.float64)
            decoded.append(ScalarEvents(numbers[chosen], which[named], steps[chosen].astype(np.int64), walls, values))
    return decoded


def _tags(heads: NDArray[np.uint8], numbers: Ints, data: bytes, spans: list[tuple[int, int]], tag_of: TagOf) -> Ints:
    """The index of the tag of each event; -1 for those that have another shape."""
    hashes = heads.astype(np.uint64) @ _WEIGHTS[: heads.shape[1]]
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    indices = np.array([_tag(heads[one], spans[numbers[one]], data, tag_of) for one in first.tolist()], np.int64)
    same = (heads == heads[first][inverse]).all(axis=1)  # whatever the hashes say
    which: Ints = np.where(same, indices[inverse], -1)
    return which


def _tag(head: NDArray[np.uint8], span: tuple[int, int], data: bytes, tag_of: TagOf) -> int:
    index = tag_of(head.tobytes(), data[span[0] : span[1]])
    return -1 if index is None else index
