"""A group that may not be there yet: scripts begin a run before they set up torch.distributed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from chiplog.runtime.ranks.transport.group import Finish, Group, GroupBroken


class LateGroup:
    """Stands for the group of this process until there is one, and then gives everything on to it."""

    def __init__(self, rank: int, world: int, find: Callable[[], Group | None]) -> None:
        self.rank, self.world = rank, world
        self._find = find
        self._found: Group | None = None

    @property
    def there(self) -> bool:
        if self._found is None:
            self._found = self._find()
        return self._found is not None

    @property
    def waits(self) -> bool:
        return self._found is not None and self._found.waits

    def form(self) -> Sequence[int] | None:
        return self._found.form() if self._found is not None else None

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        if self._found is None:
            raise GroupBroken("there is no process group")
        return self._found.exchange(chunk, everyone)

    def hear(self, word: str, seconds: float, main: int = 0) -> str:
        """The main rank's word; before there is a group, one's own."""
        return word if self._found is None else self._found.hear(word, seconds, main)

    def leave(self, rank: int) -> None:
        if self._found is not None:
            self._found.leave(rank)

    def left(self) -> Collection[int]:
        return () if self._found is None else self._found.left()

    def close(self) -> None:
        if self._found is not None:
            self._found.close()
