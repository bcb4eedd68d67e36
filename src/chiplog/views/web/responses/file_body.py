"""The bytes of a file as the body of a response: one piece at a time, read on a thread."""

from __future__ import annotations

import os

from chiplog.core.operating_system import read_at
from chiplog.views.web.workers import Workers

PIECE = 256 << 10


class FileBody:
    """Owns an open file, and yields its bytes up to the size it had when it was opened.

    The file is closed at the end, by `aclose`, or with the object: a client may leave before the first piece.
    """

    def __init__(self, descriptor: int, size: int, workers: Workers) -> None:
        self._descriptor, self._left, self._at = descriptor, size, 0
        self._workers = workers

    def __aiter__(self) -> FileBody:
        return self

    async def __anext__(self) -> bytes:
        data = await self._workers.run("files", self._read)
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        self._close()

    def _read(self) -> bytes:
        """The next piece; positioned, so that it is harmless if the file is closed meanwhile."""
        if self._descriptor < 0:
            return b""
        data = read_at(self._descriptor, min(self._left, PIECE), self._at)
        self._left -= len(data)
        self._at += len(data)
        return data

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        self._close()
