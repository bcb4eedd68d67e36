"""Assigns overlapping intervals of time to lanes, so that a picture shows all of them."""

from __future__ import annotations


class Lanes:
    """The lanes of one timeline. Place intervals in order of start, and the longest first if several start together.

    The intervals of a lane do not overlap; with `nested`, one may contain another. If `most` lanes are full, an
    interval is put on the last one.
    """

    def __init__(self, *, nested: bool = False, most: int | None = None) -> None:
        self._nested, self._most = nested, most
        self._lanes: list[list[int]] = []  # the ends of the open intervals of each, outermost first

    def __len__(self) -> int:
        return len(self._lanes)

    def place(self, start: int, end: int, first: int = 0) -> int:
        """The number of the lane for an interval, at least `first`."""
        lanes = self._lanes
        for number in range(first, len(lanes)):
            ends = lanes[number]
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or (self._nested and end <= ends[-1]):
                ends.append(end)
                return number
        if self._most is not None and len(lanes) >= self._most:
            return len(lanes) - 1
        number = max(first, len(lanes))
        lanes.extend([] for _ in range(number + 1 - len(lanes)))
        lanes[number].append(end)
        return number
