"""Rounds over MPI, on a duplicate of its communicator."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Sequence
from typing import Any

from chiplog.runtime.ranks.transport.group import Finish, Pause


class MpiGroup:
    """Gathers with requests that are polled, so that nothing blocks.

    MPI cannot recover from a lost rank: a late round stays open until every rank has joined it.
    """

    waits = False

    def __init__(self) -> None:
        mpi = sys.modules["mpi4py.MPI"]
        self._mpi = mpi
        self.rank, self.world = mpi.COMM_WORLD.rank, mpi.COMM_WORLD.size
        self._own, self._duplicating = mpi.COMM_WORLD.Idup()
        self._broadcast: Any = None

    def broadcast(self, message: str, seconds: float, main: int = 0) -> str:
        """Return the main rank's message; the main rank itself does not wait."""
        self._message = bytearray(message.encode().ljust(256) if self.rank == main else 256)
        self._broadcast = self._mpi.COMM_WORLD.Ibcast(self._message, root=main)
        until = time.monotonic() + seconds
        while self.rank != main and not self._broadcast.Test():
            if time.monotonic() > until:
                raise TimeoutError(f"no message from rank {main} for {seconds:.0f} s")
            time.sleep(0.001)
        return self._message.decode().strip()

    def is_starting(self) -> bool:
        return True

    def form(self) -> Sequence[int] | None:
        if self._broadcast is not None:
            self._broadcast.Test()  # MPI makes progress only when polled
        return range(self.world) if self._duplicating.Test() else None

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        """Start a gather to rank 0, or to everyone."""
        receives = everyone or self.rank == 0
        received = bytearray(self.world * len(chunk)) if receives else None
        request = self._own.Iallgather(chunk, received) if everyone else self._own.Igather(chunk, received, root=0)

        def finish(pause: Pause | None) -> list[bytes] | None:
            assert pause is not None and chunk  # the chunk is kept until it has been sent
            while not request.Test():
                pause()
            if received is None:
                return None
            return [bytes(received[at : at + len(chunk)]) for at in range(0, len(received), len(chunk))]

        return finish

    def leave(self, rank: int) -> None:
        pass

    def left(self) -> Collection[int]:
        return ()

    def close(self) -> None:
        pass
