"""How ranks reach each other: through the process group that training uses already, never by sockets of ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias


class GroupBroken(Exception):
    """The group no longer works; `form` may form another."""


Pause: TypeAlias = Callable[[], None]  # sleeps a little, and raises to give up
# Waits until a round is over, with pauses, or without if the group `waits`; returns the members' chunks, or None if
# this rank receives nothing.
Finish: TypeAlias = Callable[[Pause | None], list[bytes] | None]


class Group(Protocol):
    """The ranks of a run. A round needs two methods: `form` until the group is complete, then `exchange`."""

    rank: int
    world: int

    @property
    def waits(self) -> bool:
        """Whether a late round ends by itself, so that callers may wait for it without a `pause`."""
        ...

    def is_starting(self) -> bool:
        """Whether rank 0 is known to have a group of this run, too, and so to join it soon."""
        ...

    def form(self) -> Sequence[int] | None:
        """The ranks in the group, once it is complete; None while it is not, and an empty sequence if it never will be.

        Raises `GroupBroken`.
        """
        ...

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        """Start a round: every member sends a chunk of the same length, and rank 0 or everyone receives them all.

        The result completes the round. Both raise `GroupBroken` if the group is broken.
        """
        ...

    def broadcast(self, message: str, seconds: float, main: int = 0) -> str:
        """Send the main rank's message to all, during `init`; raises if it does not arrive in time."""
        ...

    def leave(self, rank: int) -> None:
        """A rank has finished."""
        ...

    def left(self) -> Collection[int]:
        """The ranks that have recorded that they finished; a broken round does not lose that."""
        ...

    def close(self) -> None: ...
