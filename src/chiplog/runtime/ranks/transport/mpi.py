"""Rounds over MPI, on a communicator of our own."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Sequence
from typing import Any

from chiplog.runtime.ranks.transport.group import Finish, Pause


class MpiGroup:
    """Gathers with requests that are asked whether they are through, so that nobody blocks.

    MPI has no way back from a lost rank: a round that is late stays under way until everybody has come.
    """

    waits = False

    def __init__(self) -> None:
        mpi: Any = sys.modules["mpi4py.MPI"]
        self._mpi = mpi
        self.rank, self.world = mpi.COMM_WORLD.rank, mpi.COMM_WORLD.size
        self._own, self._duplicating = mpi.COMM_WORLD.Idup()
        self._saying: Any = None

    def hear(self, word: str, seconds: float, main: int = 0) -> str:
        """The main rank's word; that one itself waits for nobody."""
        self._word = bytearray(word.encode().ljust(256) if self.rank == main else 256)
        self._saying = self._mpi.COMM_WORLD.Ibcast(self._word, root=main)
        until = time.monotonic() + seconds
        while self.rank != main and not self._saying.Test():
            if time.monotonic() > until:
                raise TimeoutError(f"rank {main} has said nothing for {seconds:.0f} s")
            time.sleep(0.001)
        return self._word.decode().strip()

    def form(self) -> Sequence[int] | None:
        if self._saying is not None:
            self._saying.Test()  # MPI moves on only when it is asked
        return range(self.world) if self._duplicating.Test() else None

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        """Begin a gather to rank 0, or to everyone."""
        receives = everyone or self.rank == 0
        heard = bytearray(self.world * len(chunk)) if receives else None
        request = self._own.Iallgather(chunk, heard) if everyone else self._own.Igather(chunk, heard, root=0)

        def finish(pause: Pause | None) -> list[bytes] | None:
            assert pause is not None and chunk  # the chunk is kept until it has been sent
            while not request.Test():
                pause()
            if heard is None:
                return None
            return [bytes(heard[at : at + len(chunk)]) for at in range(0, len(heard), len(chunk))]

        return finish

    def leave(self, rank: int) -> None:
        pass

    def left(self) -> Collection[int]:
        return ()

    def close(self) -> None:
        pass
