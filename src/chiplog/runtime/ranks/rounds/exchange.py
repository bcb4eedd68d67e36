"""The rounds of one group: each sends a chunk of this rank's messages, and receives those of the others."""

from __future__ import annotations

import time
from collections.abc import Sequence

from chiplog.runtime.ranks.rounds.protocol import HEAD, Inbox, Message, Outbox
from chiplog.runtime.ranks.transport.group import Finish, Group, Pause

FIRST_SIZE = 1024  # bytes of a chunk
SMALLEST, LARGEST, LARGEST_ROUND = 512, 1 << 20, 64 << 20  # bytes of a chunk, and of all chunks of a round
SCHEDULE = 64  # rounds between two in which ranks agree on the size of a chunk, after the first few


class Exchange:
    """One round at a time: `begin`, then `finish`, which may be called again if its pause gave up."""

    def __init__(
        self,
        group: Group,
        members: Sequence[int],
        *,
        everyone: bool,
        counters: bool,
        names: set[str] | None = None,
    ) -> None:
        self.members = members
        self.outbox = Outbox(counters)
        self.began = 0.0  # when the newest round was started
        self.idle = False  # whether it was started with nothing to send
        self._group, self._everyone = group, everyone
        self._receives = everyone or group.rank == 0
        shared: dict[int, tuple[str, ...]] = {}
        remote_names: set[str] = set() if names is None else names
        self._inboxes = {rank: Inbox(shared, remote_names) for rank in members}
        self._size = FIRST_SIZE
        self._done = 0
        self._finish: Finish | None = None

    @property
    def under_way(self) -> bool:
        return self._finish is not None

    @property
    def agreeing(self) -> bool:
        """Whether every rank receives this round: now and then they do, to agree on the size of a chunk."""
        return self._everyone or self._done % SCHEDULE == 0 or self._done & (self._done - 1) == 0

    @property
    def full(self) -> bool:
        """Whether more waits than a chunk can hold."""
        return self.outbox.left > self._size

    def begin(self) -> None:
        self.began, self.idle = time.monotonic(), not self.outbox.left
        self._finish = self._group.exchange(self.outbox.chunk(self._size), self.agreeing)

    def finish(self, pause: Pause | None) -> list[tuple[int, Message]]:
        """Complete the round under way; returns the messages of the other ranks, if this rank receives them."""
        assert self._finish is not None
        chunks = self._finish(pause)
        agreeing, self._finish = self.agreeing, None
        self._done += 1
        if chunks is None:
            return []
        if agreeing:
            self._agree(chunks)
        if not self._receives:  # it misses the rounds in between, so the frames in these chunks are not whole
            return []
        return [
            (rank, message)
            for rank, chunk in zip(self.members, chunks, strict=True)
            if rank != self._group.rank
            for message in self._inboxes[rank].feed(chunk)
        ]

    def _agree(self, chunks: Sequence[bytes]) -> None:
        need = HEAD.size + max(sum(HEAD.unpack_from(chunk)) for chunk in chunks)
        most = max(4096, min(LARGEST, LARGEST_ROUND // len(chunks)))
        fitting = min(max(SMALLEST, 1 << (need - 1).bit_length()), most)
        if fitting > self._size or fitting <= self._size // 4:
            self._size = fitting
