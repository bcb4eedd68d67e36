"""A gloo group of our own beside the one that training uses, built from its store without any collective of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from chiplog.runtime.ranks.transport.group import Finish, GroupBroken, Pause

RING = 3  # ranks up to which an all-gather is the quickest way to everyone
FORMING = 5.0  # s, at least, in which ranks that are ready must have met
AGAIN = 60.0  # s between two times that a group is formed anew
_count = 0  # of the groups this process has asked for: the same on all ranks, as far as all call `init` alike


class TorchGroup:
    """Gathers over gloo. A failed or late round ends the group; the next is formed when all ranks are there again."""

    waits = True  # it gives up by itself

    def __init__(self, seconds: float, restarts: str = "0") -> None:
        global _count
        dist: Any = sys.modules["torch.distributed"]
        self._dist, self._seconds = dist, seconds
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self._members: list[int] = []
        self._buffers: dict[bool, _Buffers] = {}  # of a round to everyone, and of one to rank 0
        self._works: list[Any] = []  # of the newest round; while one lives, gloo keeps its connections
        self._left: set[int] = set()
        self._generation = 0
        self._formed = -AGAIN  # when it was formed anew
        self._group: Any = None
        self._store: Any = None
        try:
            # torchrun may keep the store over its restarts, with what the ranks before have left in it; and it counts
            # none when nodes come or go
            self._store = own_store(f"chiplog/{restarts}/{self.world}/{_count}", seconds)
        except Exception:  # another torch: its private names are others
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=seconds))
            self._members = list(range(self.world))
        _count += 1

    def hear(self, word: str, seconds: float, main: int = 0) -> str:
        """The main rank's word; raises where it has not been said in time."""
        if self._store is None:
            said = [word]
            self._dist.broadcast_object_list(said, src=main, group=self._group)
            return said[0]
        if self.rank == main:
            self._store.set("word", word)
            return word
        until = time.monotonic() + seconds
        while not self._store.check(["word"]):  # waiting for it in the store would warn of a timeout in torch's words
            if time.monotonic() > until:
                raise TimeoutError(f"it has said nothing for {seconds:.0f} s")
            time.sleep(0.01)
        return str(self._store.get("word").decode())

    def form(self) -> Sequence[int] | None:
        """The ranks of the group, when all of them are ready; never waits for one that is not."""
        if self._group is not None:
            return self._members
        if self._store is None:
            return ()
        try:
            members = self._gate()
        except self._dist.DistNetworkError:  # the store has gone with the process that held it
            return ()
        if not members:
            return members
        try:
            self._group = gloo(
                self._store, str(self._generation), members.index(self.rank), len(members), self._seconds
            )
        except Exception as error:
            self._generation += 1
            raise GroupBroken(_reason(error)) from None
        self._members = members
        if self._generation:
            self._formed = time.monotonic()
        return members

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        """Begin a gather to rank 0, or to everyone."""
        # Gloo gathers to all in a ring, hop by hop; to one and from there in a tree is quicker but for the smallest.
        spread = everyone and len(self._members) > RING
        buffers = self._buffers.get(everyone)
        if buffers is None or len(buffers.mine_bytes) != len(chunk):
            receives = everyone or self.rank == self._members[0]
            buffers = self._buffers[everyone] = _Buffers.of(len(chunk), len(self._members) if receives else 0)
        buffers.mine_bytes[:] = chunk
        heard = buffers.heard_bytes

        def finish(pause: Pause | None) -> list[bytes] | None:
            try:
                _wait(works[0], pause)
                if spread and len(works) == 1:
                    works.append(self._spread(buffers.heard))
                for one in works[1:]:
                    _wait(one, pause)
            except (RuntimeError, ValueError) as error:
                raise self._broken(error) from None
            if not heard:
                return None
            return [bytes(heard[at : at + len(chunk)]) for at in range(0, len(heard), len(chunk))]

        try:
            works = self._works = [self._begin(buffers, everyone and not spread)]
        except (RuntimeError, ValueError) as error:
            raise self._broken(error) from None
        return finish

    def leave(self, rank: int) -> None:
        """A rank has finished: the next group is formed without it."""
        self._left.add(rank)

    def left(self) -> Collection[int]:
        if self._store is None:
            return self._left
        others = (rank for rank in range(self.world) if rank != self.rank)
        return [rank for rank in others if self._store.check([f"left/{rank}"])]

    def close(self) -> None:
        if self._store is None:
            return
        try:
            self._store.set(f"left/{self.rank}", b"")
            if self.rank == 0:  # nobody forms a group without it
                self._store.set("over", b"")
        finally:
            self._lose()

    def _begin(self, buffers: _Buffers, everyone: bool) -> Any:
        mine, heard, pieces, *_ = buffers
        if not everyone and self.rank != self._members[0]:
            pieces = []
        if self._store is None:
            if everyone:
                return self._dist.all_gather(pieces, mine, group=self._group, async_op=True)
            return self._dist.gather(mine, pieces or None, dst=0, group=self._group, async_op=True)
        if everyone:
            return self._group._allgather_base(heard, mine)
        return self._group.gather([pieces] if pieces else [], [mine])

    def _spread(self, heard: Any) -> Any:
        """Give everyone what the first has gathered."""
        if self._store is None:
            return self._dist.broadcast(heard, src=0, group=self._group, async_op=True)
        return self._group.broadcast([heard], self._dist.BroadcastOptions())

    def _broken(self, error: Exception) -> GroupBroken:
        self._lose()
        return GroupBroken(_reason(error))

    def _gate(self) -> list[int] | None:
        """Who is in the next group: everyone who has not finished, once rank 0 has seen that they are all ready.

        Nobody, when rank 0 itself has finished.
        """
        key = str(self._generation)
        if not self._store.check([f"{key}/ready/{self.rank}"]):
            self._store.set(f"{key}/ready/{self.rank}", b"")
        if self.rank == 0 and time.monotonic() - self._formed >= AGAIN and not self._store.check([f"{key}/go"]):
            members = [rank for rank in range(self.world) if rank not in self._left]
            if len(members) > 1 and self._store.check([f"{key}/ready/{rank}" for rank in members]):
                self._store.set(f"{key}/go", msgspec.json.encode(members))
        if not self._store.check([f"{key}/go"]):
            return [] if self.rank and self._store.check(["over"]) else None
        found: list[int] = msgspec.json.decode(self._store.get(f"{key}/go"), type=list[int])
        return found if self.rank in found else None

    def _lose(self) -> None:
        """End the group, so that the others notice too."""
        group, self._group = self._group, None
        self._buffers = {}  # the round that was under way may still use them
        self._works.clear()
        if group is None or self._store is None:
            return
        self._generation += 1
        try:
            group.abort()
        except Exception:  # it is broken anyway
            pass


class _Buffers(NamedTuple):
    """What a round is sent from and received in: made once, since making tensors takes longer than sending them."""

    mine: Any
    heard: Any
    pieces: list[Any]
    mine_bytes: memoryview
    heard_bytes: memoryview

    @classmethod
    def of(cls, size: int, count: int) -> _Buffers:
        torch: Any = sys.modules["torch"]
        mine, heard = torch.zeros(size, dtype=torch.uint8), torch.zeros(count * size, dtype=torch.uint8)
        pieces = list(heard.chunk(count)) if count else []
        return cls(mine, heard, pieces, memoryview(mine.numpy()), memoryview(heard.numpy()))


def _wait(work: Any, pause: Pause | None) -> None:
    while pause is not None and not work.is_completed():
        pause()
    work.wait()  # raises what went wrong


def own_store(prefix: str, seconds: float) -> Any:
    """The store that the process group was set up with, over a connection of our own."""
    dist: Any = sys.modules["torch.distributed"]
    store = dist.distributed_c10d._get_default_store().clone()
    store.set_timeout(timedelta(seconds=max(seconds, FORMING)))
    return dist.PrefixStore(prefix, store)


def gloo(store: Any, prefix: str, rank: int, world: int, seconds: float) -> Any:
    """A gloo group that no process group of torch knows of."""
    dist: Any = sys.modules["torch.distributed"]
    return dist.ProcessGroupGloo(dist.PrefixStore(prefix, store), rank, world, timedelta(seconds=seconds))


def _reason(error: Exception) -> str:
    """What gloo says, in few words."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "imed out" in text:
        return "not all ranks came in time"
    if "by peer" in text or "roken pipe" in text:
        return "a rank has gone"
    return text[:200]
