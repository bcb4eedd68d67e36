"""Bytes that are computed while they are sent, on a thread: a trace of a long run is never whole in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from chiplog.views.web.responses.file_body import PIECE
from chiplog.views.web.workers import Workers


class ComputedBody:
    """Yields the bytes of an iterator, in pieces; the first is computed at once, so that an error is a response."""

    def __init__(self, packets: Iterator[bytes], workers: Workers, group: str) -> None:
        self._packets = chain([next(packets, b"")], packets)
        self._workers, self._group = workers, group

    def __aiter__(self) -> ComputedBody:
        return self

    async def __anext__(self) -> bytes:
        data = await self._workers.run(self._group, self._piece)
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        self._packets = chain()

    def _piece(self) -> bytes:
        piece = bytearray()
        for packet in self._packets:
            piece += packet
            if len(piece) >= PIECE:
                break
        return bytes(piece)
