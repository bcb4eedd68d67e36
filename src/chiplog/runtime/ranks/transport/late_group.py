"""A group that may not exist yet: some scripts start a run before they set up torch.distributed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from chiplog.runtime.ranks.transport.group import Finish, Group, GroupBroken


class LateGroup:
    """Waits for the process group, and delegates everything to it once it exists."""

    def __init__(self, rank: int, world: int, find: Callable[[], Group | None]) -> None:
        self.rank, self.world = rank, world
        self._find = find
        self._group: Group | None = None

    @property
    def exists(self) -> bool:
        if self._group is None:
            self._group = self._find()
        return self._group is not None

    @property
    def waits(self) -> bool:
        return self._group is not None and self._group.waits

    def is_starting(self) -> bool:
        return self._group is not None and self._group.is_starting()

    def form(self) -> Sequence[int] | None:
        return self._group.form() if self._group is not None else None

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        if self._group is None:
            raise GroupBroken("there is no process group")
        return self._group.exchange(chunk, everyone)

    def broadcast(self, message: str, seconds: float, main: int = 0) -> str:
        """The main rank's message; without a group, this rank's own."""
        return message if self._group is None else self._group.broadcast(message, seconds, main)

    def leave(self, rank: int) -> None:
        if self._group is not None:
            self._group.leave(rank)

    def left(self) -> Collection[int]:
        return () if self._group is None else self._group.left()

    def close(self) -> None:
        if self._group is not None:
            self._group.close()


def has_group(group: Group) -> bool:
    """Whether a group exists yet."""
    return not isinstance(group, LateGroup) or group.exists
