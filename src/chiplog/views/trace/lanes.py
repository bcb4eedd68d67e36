"""Assigns overlapping intervals of time to lanes, so that a picture shows all of them."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf

SCANNED = 8  # lanes that are tried one by one; pictures of more need a search


class Lanes:
    """The lanes of one timeline. Place intervals in order of start, and the longest first if several start together.

    The intervals of a lane do not overlap; with `nested`, one may contain another. If `most` lanes are full, an
    interval is put on the last one.
    """

    def __init__(self, *, nested: bool = False, most: int | None = None) -> None:
        self._nested, self._most = nested, most
        self._lanes: list[list[int]] = []  # the ends of the open intervals of the first few, outermost first
        self._others = _Lanes(nested)

    def __len__(self) -> int:
        return len(self._lanes) + len(self._others)

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
        count = len(self)
        if count > SCANNED and (other := self._others.place(start, end, max(0, first - SCANNED))) is not None:
            return SCANNED + other
        if self._most is not None and count >= self._most:
            return count - 1
        number = max(first, count)
        lanes.extend([] for _ in range(min(number + 1, SCANNED) - len(lanes)))
        if number < SCANNED:
            lanes[number].append(end)
        else:
            self._others.open(number - SCANNED, end)
        return number


class _Lanes:
    """Any number of lanes: a tree finds the first one with room, and a heap those that have become free.

    The room of a lane is the end of its innermost open interval: infinite if there is none, and none if there may be
    only one.
    """

    def __init__(self, nested: bool) -> None:
        self._nested = nested
        self._ends: list[list[int]] = []
        self._open: list[tuple[int, int]] = []  # the ends of all open intervals with their lanes
        self._size = 1
        self._room = [-inf, -inf]  # of the lanes from `_size` on, and above them of the better one of two

    def __len__(self) -> int:
        return len(self._ends)

    def place(self, start: int, end: int, first: int) -> int | None:
        """The first lane with room for an interval, from `first` on; None if all are taken."""
        while self._open and self._open[0][0] <= start:
            freed = heappop(self._open)[1]
            self._ends[freed].pop()
            self._note(freed)
        lane = self._find(end, first)
        if lane is not None:
            self._put(lane, end)
        return lane

    def open(self, lane: int, end: int) -> None:
        """Add a lane with an interval, and those before it that are missing."""
        for missing in range(len(self._ends), lane + 1):
            self._ends.append([])
            if missing >= self._size:
                rooms = [*self._room[self._size :], *([-inf] * self._size)]
                self._size *= 2
                self._room = [-inf] * self._size + rooms
                for at in range(self._size - 1, 0, -1):
                    self._room[at] = max(self._room[2 * at], self._room[2 * at + 1])
            self._note(missing)
        self._put(lane, end)

    def _put(self, lane: int, end: int) -> None:
        self._ends[lane].append(end)
        heappush(self._open, (end, lane))
        self._note(lane)

    def _note(self, lane: int) -> None:
        ends = self._ends[lane]
        room = self._room
        at = self._size + lane
        room[at] = inf if not ends else ends[-1] if self._nested else -inf
        while at > 1:
            at //= 2
            best = max(room[2 * at], room[2 * at + 1])
            if room[at] == best:
                return
            room[at] = best

    def _find(self, end: int, first: int) -> int | None:
        """The first lane from `first` on with room up to `end`."""
        if first >= len(self._ends):
            return None
        room, at = self._room, self._size + first
        while room[at] < end:  # up, until the subtree on the right has one
            while at & 1:
                at //= 2
            if not at:
                return None
            at += 1
        while at < self._size:
            at *= 2
            if room[at] < end:
                at += 1
        return at - self._size
