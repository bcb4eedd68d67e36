"""Which ranks are waited for: all except those that have left and those that were late."""

from __future__ import annotations

from collections.abc import Iterable

CHANCES = 2  # times that a rank may be late before it has to catch up first


class Attendance:
    """A late rank is waited for again when it reports. If it is late a second time, it has to catch up first: a rank
    that is always behind must not cost a deadline at every row."""

    def __init__(self, ranks: Iterable[int]) -> None:
        self._ranks = set(ranks)
        self._left: set[int] = set()
        self._failures: dict[int, int] = {}
        self.expected = set(self._ranks)

    @property
    def absent(self) -> set[int]:
        """The ranks that were late and are not back."""
        return self._ranks - self.expected - self._left

    def is_behind(self, rank: int) -> bool:
        return rank in self._failures

    def give_up(self, ranks: Iterable[int]) -> None:
        """These were late: do not wait for them."""
        for rank in self.expected.intersection(ranks):
            self._failures[rank] = self._failures.get(rank, 0) + 1
            self.expected.discard(rank)

    def report(self, rank: int, *, caught_up: bool) -> None:
        """A rank has sent a row."""
        if rank in self._left or rank not in self._ranks:
            return
        if caught_up or self._failures.get(rank, 0) < CHANCES:
            self.expected.add(rank)

    def forgive(self, ranks: Iterable[int]) -> None:
        """These have reported in time."""
        if self._failures:
            for rank in ranks:
                self._failures.pop(rank, None)

    def leave(self, rank: int) -> None:
        self._left.add(rank)
        self.expected.discard(rank)

    def form(self, ranks: Iterable[int]) -> None:
        """These ranks are the group now; no others are waited for."""
        self._ranks = set(ranks)
        self._failures.clear()
        self.expected = self._ranks - self._left
