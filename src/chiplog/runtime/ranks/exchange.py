"""The rounds of one group: what this rank says goes out in chunks, what the others say comes in as frames."""

from __future__ import annotations

import time
from collections.abc import Sequence

from chiplog.runtime.ranks.protocol import HEAD, Inbox, Message, Outbox
from chiplog.runtime.ranks.transport.group import Finish, Group, Pause

ROOM = 1024  # bytes of a chunk, at first
SMALLEST, LARGEST, AT_ONCE = 512, 1 << 20, 64 << 20  # bytes of a chunk, and of all chunks of a round
SCHEDULE = 64  # rounds between two in which the room is agreed on, after the first few


class Exchange:
    """One at a time: `begin`, then `finish`, which may be asked again where its pause has given up."""

    def __init__(
        self,
        group: Group,
        members: Sequence[int],
        *,
        everyone: bool,
        counters: bool,
        heard: set[str] | None = None,
    ) -> None:
        self.members = members
        self.heard: set[str] = set() if heard is None else heard  # the names that others have said
        self.outbox = Outbox(counters)
        self.began = 0.0  # the newest round
        self.idle = False  # it was begun with nothing to say
        self._group, self._everyone = group, everyone
        self._hears = everyone or group.rank == 0
        shared: dict[int, tuple[str, ...]] = {}
        self._inboxes = {rank: Inbox(shared, self.heard) for rank in members}
        self._room = ROOM
        self._done = 0
        self._finish: Finish | None = None

    @property
    def under_way(self) -> bool:
        return self._finish is not None

    @property
    def agreeing(self) -> bool:
        """Whether all hear all in this round: now and then they see what all have to send, and so agree on the room."""
        return self._everyone or self._done % SCHEDULE == 0 or self._done & (self._done - 1) == 0

    @property
    def full(self) -> bool:
        """Whether more waits than a chunk holds."""
        return self.outbox.left > self._room

    def begin(self) -> None:
        self.began, self.idle = time.monotonic(), not self.outbox.left
        self._finish = self._group.exchange(self.outbox.chunk(self._room), self.agreeing)

    def finish(self, pause: Pause | None) -> list[tuple[int, Message]]:
        """Complete the round under way; gives what the other ranks have said, where it is heard."""
        assert self._finish is not None
        chunks = self._finish(pause)
        agreeing, self._finish = self.agreeing, None
        self._done += 1
        if chunks is None:
            return []
        if agreeing:
            self._agree(chunks)
        if not self._hears:  # in between it gets nothing: what it sees here are no whole frames
            return []
        heard = [pair for pair in zip(self.members, chunks, strict=True) if pair[0] != self._group.rank]
        return [(rank, frame) for rank, chunk in heard for frame in self._inboxes[rank].feed(chunk)]

    def _agree(self, chunks: Sequence[bytes]) -> None:
        need = HEAD.size + max(sum(HEAD.unpack_from(chunk)) for chunk in chunks)
        most = max(4096, min(LARGEST, AT_ONCE // len(chunks)))
        fitting = min(max(SMALLEST, 1 << (need - 1).bit_length()), most)
        if fitting > self._room or fitting <= self._room // 4:
            self._room = fitting
