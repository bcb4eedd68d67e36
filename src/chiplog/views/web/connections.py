"""The open connections of the server, and which of them make room for a new one.

Anybody on the machine can connect. Those who have not shown the token share a number of connections of their own, and
the newest replaces the oldest, whatever that does: a crowd of strangers displaces only strangers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

STRANGERS = 64  # connections that have not shown the token
TRUSTED = 160
IN_FLIGHT = 64 << 20  # bytes of responses that wait for their clients


class Connection:
    """One client, served by one task."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.trusted = False
        self.busy = False  # being answered, rather than waiting for a request
        self.held = 0  # bytes of the response that it reads


class Connections:
    """All connections, in the order in which they were last used."""

    def __init__(self) -> None:
        self._strangers: dict[Connection, None] = {}
        self._trusted: dict[Connection, None] = {}

    @contextlib.contextmanager
    def admit(self) -> Iterator[Connection]:
        """A connection of the current task, as a stranger."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._strangers) >= STRANGERS:
            self._drop(next(iter(self._strangers)))
        connection = Connection(task)
        self._strangers[connection] = None
        try:
            yield connection
        finally:
            self._forget(connection)

    def trust(self, connection: Connection) -> None:
        """The client has shown the token."""
        if connection.trusted or connection not in self._strangers:
            return
        if len(self._trusted) >= TRUSTED:  # an event stream reconnects by itself
            self._drop(next((one for one in self._trusted if not one.busy), None) or next(iter(self._trusted)))
        connection.trusted = True
        del self._strangers[connection]
        self._trusted[connection] = None

    @contextlib.contextmanager
    def busy(self, connection: Connection) -> Iterator[None]:
        """While the client is answered."""
        connection.busy = True
        try:
            yield
        finally:
            connection.busy, connection.held = False, 0
            group = self._trusted if connection.trusted else self._strangers
            if connection in group:  # the last in line to make room
                del group[connection]
                group[connection] = None

    def hold(self, connection: Connection, size: int) -> None:
        """Note the size of a response; if all are too large, the clients that have been reading longest are dropped."""
        connection.held = size
        while self._held() > IN_FLIGHT:
            slow = [one for one in (*self._strangers, *self._trusted) if one.held and one is not connection]
            if not slow:
                return
            self._drop(slow[0])

    async def close(self) -> None:
        """Drop all."""
        tasks = [one.task for one in (*self._strangers, *self._trusted)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _held(self) -> int:
        return sum(one.held for one in (*self._strangers, *self._trusted))

    def _drop(self, connection: Connection) -> None:
        self._forget(connection)
        connection.task.cancel()

    def _forget(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        self._trusted.pop(connection, None)
