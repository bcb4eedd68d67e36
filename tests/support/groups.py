"""Groups of ranks that misbehave."""

from __future__ import annotations

from collections.abc import Sequence

from chiplog.runtime.ranks.transport.group import Finish, Pause


class Stuck:
    """Rank 1 of two; rank 0 never comes."""

    rank, world, waits = 1, 2, False

    def form(self) -> Sequence[int] | None:
        return (0, 1)

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        def finish(pause: Pause | None) -> list[bytes] | None:
            while pause is not None:
                pause()
            return None

        return finish

    def broadcast(self, message: str, seconds: float, main: int = 0) -> str:
        return message

    def leave(self, rank: int) -> None: ...

    def left(self) -> Sequence[int]:
        return ()

    def close(self) -> None: ...
