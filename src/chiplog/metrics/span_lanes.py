"""Lanes for stretches of time that overlap, so that a picture shows them all."""

from __future__ import annotations


class Lanes:
    """Lanes of one timeline. Stretches come by their begin, of several at once the longest first.

    On a lane no two lie at one time; with `nested`, one may lie inside another. What finds no place on `most` lanes
    lies on the last one.
    """

    def __init__(self, *, nested: bool = False, most: int | None = None) -> None:
        self._nested, self._most = nested, most
        self._lanes: list[list[int]] = []  # the ends of what is open on each, outermost first

    def __len__(self) -> int:
        return len(self._lanes)

    def place(self, begin: int, end: int, first: int = 0) -> int:
        """The number of the lane that a stretch goes on, from `first` on."""
        lanes = self._lanes
        for number in range(first, len(lanes)):
            ends = lanes[number]
            while ends and ends[-1] <= begin:
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
