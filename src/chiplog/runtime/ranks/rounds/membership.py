"""Which ranks are in the group, and which have finished."""

from __future__ import annotations

from collections.abc import Sequence

from chiplog.runtime.ranks.transport.group import Group


class Membership:
    """The members of the current group; nobody while the group is incomplete."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self.members: Sequence[int] = ()
        self.was_formed = False  # at least once
        self._finished: set[int] = set()
        self._finished_here: set[int] = set()  # since this group was formed

    def form(self, members: Sequence[int]) -> None:
        """Start with a new group, or with none."""
        self.members = members
        self._finished_here = set()
        self.was_formed = self.was_formed or bool(members)

    def finish(self, rank: int) -> None:
        """A rank has finished: the next group is formed without it."""
        self._finished_here.add(rank)
        self._finished.add(rank)
        self._group.leave(rank)

    def unnoticed(self) -> set[int]:
        """The members that have finished without a farewell in a round."""
        try:
            return set(self._group.left()).intersection(self.members) - self._finished_here
        except Exception:  # the store has gone with the rank that held it
            return set()

    @property
    def finished_here(self) -> str:
        """The ranks that have left the current group, for a message."""
        return ", ".join(map(str, sorted(self._finished_here)[:8]))

    @property
    def others_left_group(self) -> bool:
        """Whether all other members of the current group have finished."""
        return bool(self._finished_here) and len(self._finished_here) + 1 >= len(self.members)

    @property
    def is_last(self) -> bool:
        """Whether all other ranks of the run have finished."""
        return self.was_formed and len(self._finished) + 1 >= self._group.world
