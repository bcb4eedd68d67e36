"""Rounds over the key-value store of JAX's coordinator; no device is involved."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from chiplog.runtime.ranks.transport.group import Finish, GroupBroken, Pause

_OVER = "over"
_count = 0  # groups that this process has made


class JaxGroup:
    """Each rank writes its chunk under the number of the round; receivers read them all.

    A late rank loses nothing: its round stays open until it writes. A rank that has finished records the round from
    which it is missing, and the others continue without it.
    """

    waits = False

    def __init__(self) -> None:
        global _count
        state = sys.modules["jax._src.distributed"].global_state
        self._client = state.client
        self.rank, self.world = state.process_id, state.num_processes
        self._prefix = f"chiplog/{_count}"
        self._round = 0
        self._over = False  # rank 0 has finished
        _count += 1

    def broadcast(self, message: str, seconds: float, main: int = 0) -> str:
        """Return the main rank's message."""
        if self.rank == main:
            self._client.key_value_set(f"{self._prefix}/word", message)
            return message
        return str(self._client.blocking_key_value_get(f"{self._prefix}/word", int(seconds * 1000)))

    def is_starting(self) -> bool:
        return True

    def form(self) -> Sequence[int] | None:
        return () if self._over else range(self.world)

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        """Start a round. A rank that receives nothing waits until rank 0 has read the previous round."""
        client, now = self._client, self._round
        client.key_value_set_bytes(f"{self._prefix}/{now}/{self.rank}", chunk)
        self._round += 1

        def finish(pause: Pause | None) -> list[bytes] | None:
            assert pause is not None
            if not everyone and self.rank:
                while now > 0 and not self._is_read(now - 1):
                    pause()
                return None
            while (by_rank := self._chunks(now, len(chunk))) is None:
                pause()
            if self.rank == 0:  # every rank in this round is done with the previous one
                client.key_value_set(f"{self._prefix}/read/{now}", "1")
                client.key_value_delete(f"{self._prefix}/{now - 1}/")
                client.key_value_delete(f"{self._prefix}/read/{now - 2}")
            return [by_rank[rank] for rank in range(self.world)]

        return finish

    def leave(self, rank: int) -> None:
        pass

    def left(self) -> Collection[int]:
        return ()

    def close(self) -> None:
        """Record that this rank has finished."""
        self._client.key_value_set(f"{self._prefix}/left/{self.rank}", str(self._round))
        if self.rank == 0:
            self._client.key_value_set(f"{self._prefix}/read/{_OVER}", "1")

    def _is_read(self, now: int) -> bool:
        """Whether rank 0 has read a round."""
        read = {key.rpartition("/")[2] for key, _ in self._client.key_value_dir_get(f"{self._prefix}/read/")}
        if str(now) not in read and _OVER in read:
            raise self._broken()
        return str(now) in read

    def _broken(self) -> GroupBroken:
        self._over = True
        return GroupBroken("rank 0 has finished")

    def _chunks(self, now: int, size: int) -> dict[int, bytes] | None:
        """The chunks of a round, zeros for ranks that had finished; None while one is missing."""
        chunks = {_rank(key): value for key, value in self._client.key_value_dir_get_bytes(f"{self._prefix}/{now}/")}
        missing = [rank for rank in range(self.world) if rank not in chunks]
        if missing:
            left = {_rank(key): int(since) for key, since in self._client.key_value_dir_get(f"{self._prefix}/left/")}
            if any(left.get(rank, now + 1) > now for rank in missing):
                return None
            if 0 in missing:
                raise self._broken()
        return chunks | dict.fromkeys(missing, bytes(size))


def _rank(key: str) -> int:
    return int(key.rpartition("/")[2])
