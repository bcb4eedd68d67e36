"""The rounds of a group."""

from __future__ import annotations

from collections.abc import Sequence

from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import RankRow
from chiplog.runtime.ranks.rounds.exchange import Exchange
from chiplog.runtime.ranks.rounds.protocol import Outbox
from chiplog.runtime.ranks.transport.group import Finish


class Canned:
    """A group of two in which the other rank says what it was told to."""

    world, waits = 2, True

    def __init__(self, rank: int, chunks: Sequence[bytes]) -> None:
        self.rank, self._chunks = rank, list(chunks)

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        other = self._chunks.pop(0)
        heard = [other, chunk] if self.rank else [chunk, other]
        return lambda _: heard if everyone or self.rank == 0 else None

    def form(self) -> Sequence[int] | None:
        return (0, 1)

    def broadcast(self, message: str, seconds: float, main: int = 0) -> str:
        return message

    def leave(self, rank: int) -> None: ...

    def left(self) -> Sequence[int]:
        return ()

    def close(self) -> None: ...


def chunks_of(count: int, room: int) -> list[bytes]:
    """Long rows of a rank, cut so that most frames lie over two chunks."""
    outbox = Outbox()
    for step in range(count):
        outbox.add(7, RankRow(step, Values(tuple(f"x{n}" for n in range(100)), bytes(range(200)) * 4), 5))
    return [outbox.chunk(room) for _ in range(count)]


def test_a_rank_that_hears_now_and_then_makes_nothing_of_it() -> None:
    """Where rank 0 alone gets the rows, the others see some chunks, to agree on the room: no whole frames."""
    for rank, frames in ((1, 0), (0, 1)):
        rounds = Exchange(Canned(rank, chunks_of(4, 1024)), (0, 1), everyone=False, counters=False)
        heard = []
        for _ in range(3):
            rounds.begin()
            heard += rounds.finish(None)
        assert bool(heard) == bool(frames)
        assert all(isinstance(frame, RankRow) for _, frame in heard)
