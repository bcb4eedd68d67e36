"""Our own gloo group, separate from the training's, built from its store without calling its collectives."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import msgspec

from chiplog.runtime.ranks.transport.group import Finish, GroupBroken, Pause

RING = 3  # ranks up to which an all-gather is the fastest way to everyone
FORMING = 5.0  # s that ranks which are ready have at least to connect
AGAIN = 60.0  # s before a group is formed again
_count = 0  # groups that this process has made: the same on all ranks if all call `init` alike


class Collective(Protocol):
    """An asynchronous collective of torch."""

    def is_completed(self) -> bool: ...

    def wait(self) -> object: ...


class TorchGroup:
    """Gathers over gloo. A failed or late round ends the group; the next is formed when all ranks are ready again."""

    waits = True  # gloo has a timeout

    def __init__(self, seconds: float, restarts: str = "0") -> None:
        global _count
        dist = sys.modules["torch.distributed"]
        self._dist, self._seconds = dist, seconds
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self._members: list[int] = []
        self._buffers: dict[bool, _Buffers] = {}  # for rounds to everyone, and for those to rank 0
        self._works: list[Collective] = []  # of the newest round; gloo keeps its connections while one is referenced
        self._left: set[int] = set()
        self._generation = 0
        self._formed = -AGAIN  # when it was last formed again
        self._group: Any = None
        self._store: Any = None
        try:
            # torchrun may keep the store over its restarts, with the keys of earlier ranks; and it does not count a
            # restart when nodes join or leave
            self._store = own_store(f"chiplog/{restarts}/{self.world}/{_count}", seconds)
            if self.rank == 0:
                self._store.set("started", b"")
        except Exception:  # another version of torch, with other private names
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=seconds))
            self._members = list(range(self.world))
        _count += 1

    def broadcast(self, message: str, seconds: float, main: int = 0) -> str:
        """Return the main rank's message; raises if it does not arrive in time."""
        if self._store is None:
            messages = [message]
            self._dist.broadcast_object_list(messages, src=main, group=self._group)
            return messages[0]
        if self.rank == main:
            self._store.set("word", message)
            return message
        until = time.monotonic() + seconds
        while not self._store.check(["word"]):  # a blocking `get` would make torch warn of a timeout
            if time.monotonic() > until:
                raise TimeoutError(f"no message for {seconds:.0f} s")
            time.sleep(0.01)
        return str(self._store.get("word").decode())

    def is_starting(self) -> bool:
        return self._store is None or bool(self._store.check(["started"]))

    def form(self) -> Sequence[int] | None:
        """Form the group when all ranks are ready; never waits for one that is not."""
        if self._group is not None:
            return self._members
        if self._store is None:
            return ()
        try:
            members = self._next_members()
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
        """Start a gather to rank 0, or to everyone."""
        # Gloo's all-gather is a ring; a gather to one rank and a broadcast in a tree is faster except for the smallest.
        spread = everyone and len(self._members) > RING
        buffers = self._buffers.get(everyone)
        if buffers is None or len(buffers.mine_bytes) != len(chunk):
            receives = everyone or self.rank == self._members[0]
            buffers = self._buffers[everyone] = _Buffers.of(len(chunk), len(self._members) if receives else 0)
        buffers.mine_bytes[:] = chunk
        received = buffers.received_bytes

        def finish(pause: Pause | None) -> list[bytes] | None:
            try:
                _wait(works[0], pause)
                if spread and len(works) == 1:
                    works.append(self._spread(buffers.received))
                for one in works[1:]:
                    _wait(one, pause)
            except (RuntimeError, ValueError) as error:
                raise self._broken(error) from None
            if not received:
                return None
            return [bytes(received[at : at + len(chunk)]) for at in range(0, len(received), len(chunk))]

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
            if self.rank == 0:  # no group is formed without it
                self._store.set("over", b"")
        finally:
            self._lose()

    def _begin(self, buffers: _Buffers, everyone: bool) -> Collective:
        mine, received, pieces, *_ = buffers
        if not everyone and self.rank != self._members[0]:
            pieces = []
        work: Collective
        if self._store is None and everyone:
            work = self._dist.all_gather(pieces, mine, group=self._group, async_op=True)
        elif self._store is None:
            work = self._dist.gather(mine, pieces or None, dst=0, group=self._group, async_op=True)
        elif everyone:
            work = self._group._allgather_base(received, mine)
        else:
            work = self._group.gather([pieces] if pieces else [], [mine])
        return work

    def _spread(self, received: object) -> Collective:
        """Broadcast what the first rank has gathered."""
        work: Collective
        if self._store is None:
            work = self._dist.broadcast(received, src=0, group=self._group, async_op=True)
        else:
            work = self._group.broadcast([received], self._dist.BroadcastOptions())
        return work

    def _broken(self, error: Exception) -> GroupBroken:
        self._lose()
        return GroupBroken(_reason(error))

    def _next_members(self) -> list[int] | None:
        """The members of the next group: all ranks that have not finished, once rank 0 has seen that they are ready.

        None while they are not; an empty list if rank 0 has finished.
        """
        key = str(self._generation)
        self._note(f"{key}/ready/{self.rank}")
        if self.rank == 0 and time.monotonic() - self._formed >= AGAIN and not self._store.check([f"{key}/go"]):
            members = [rank for rank in range(self.world) if rank not in self._left]
            ready = len(members) > 1 and self._store.check([f"{key}/ready/{rank}" for rank in members])
            if ready and not self._exclude_left(members):
                self._store.set(f"{key}/go", msgspec.json.encode(members))
        if self._store.check([f"{key}/go"]):
            members = msgspec.json.decode(self._store.get(f"{key}/go"), type=list[int])
            if self.rank not in members:
                return None
            if self._are_here(key, members):
                return members
        return [] if self.rank and self._store.check(["over"]) else None

    def _are_here(self, key: str, members: list[int]) -> bool:
        """Whether all members are about to connect, which waits for each of them in native code, where no process can
        end cleanly. If one has left instead, the group is formed without it, under the next number."""
        self._note(f"{key}/here/{self.rank}")
        if self._store.check([f"{key}/here/{rank}" for rank in members]):
            return True
        if self.rank == 0 and self._exclude_left(members):
            self._store.set(f"{key}/off", b"")
        if self._store.check([f"{key}/off"]):
            self._generation += 1
        return False

    def _exclude_left(self, members: Collection[int]) -> bool:
        """Leave members that have finished out of the next group; whether there are any."""
        gone = set(self.left()).intersection(members)
        self._left |= gone
        return bool(gone)

    def _note(self, key: str) -> None:
        if not self._store.check([key]):
            self._store.set(key, b"")

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
        except Exception:  # it was broken already
            pass


class _Buffers(NamedTuple):
    """The tensors of a round, which are reused because making them takes longer than sending them."""

    mine: object
    received: object
    pieces: list[object]
    mine_bytes: memoryview
    received_bytes: memoryview

    @classmethod
    def of(cls, size: int, count: int) -> _Buffers:
        torch = sys.modules["torch"]
        mine, received = torch.zeros(size, dtype=torch.uint8), torch.zeros(count * size, dtype=torch.uint8)
        pieces = list(received.chunk(count)) if count else []
        return cls(mine, received, pieces, memoryview(mine.numpy()), memoryview(received.numpy()))


def _wait(work: Collective, pause: Pause | None) -> None:
    while pause is not None and not work.is_completed():
        pause()
    work.wait()  # raises what went wrong


def own_store(prefix: str, seconds: float) -> Any:
    """The store of the process group, over our own connection."""
    dist = sys.modules["torch.distributed"]
    store = dist.distributed_c10d._get_default_store().clone()
    store.set_timeout(timedelta(seconds=max(seconds, FORMING)))
    return dist.PrefixStore(prefix, store)


def gloo(store: object, prefix: str, rank: int, world: int, seconds: float) -> Any:
    """A gloo group that is not registered with torch."""
    dist = sys.modules["torch.distributed"]
    return dist.ProcessGroupGloo(dist.PrefixStore(prefix, store), rank, world, timedelta(seconds=seconds))


def _reason(error: Exception) -> str:
    """Gloo's error, in a few words."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "imed out" in text:
        return "not all ranks came in time"
    if "by peer" in text or "roken pipe" in text:
        return "a rank has gone"
    return text[:200]
