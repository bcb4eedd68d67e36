"""Sends new data to pages as it is written (server-sent events).

One reader follows each run that is being viewed, however many pages show it. A page that reads its events too slowly
learns that it has missed some, and asks again; nothing piles up for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from chiplog.core import records
from chiplog.core.records import AnyRecord, Number
from chiplog.store import layout
from chiplog.store.journal.tail import Tail, near_end
from chiplog.views.strict_json import encode
from chiplog.views.web.workers import Workers

EVERY = 0.2  # s between reads
BEAT = 15.0  # s between keep-alive messages
MOST = 20_000  # numbers in one event; a page that would get more has to ask
WAITING = 20  # events that may wait for a page
BEHIND = 32 << 10  # bytes before the end at which a follower starts: pages recognise by time what they already have
FOLLOWED = 64  # runs at once


class Feed:
    """Follows runs while pages listen."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._listeners: set[_Listener] = set()
        self._followers: dict[str, asyncio.Task[None]] = {}

    async def listen(
        self, runs: dict[str, Path], greeting: Callable[[], dict[str, object]]
    ) -> AsyncGenerator[bytes, None]:
        """The events of some runs, and of the list of runs, until the client leaves."""
        listener = _Listener(set(runs))
        self._listeners.add(listener)
        for key, path in runs.items():
            if key not in self._followers and len(self._followers) < FOLLOWED:
                self._followers[key] = asyncio.create_task(self._follow(key, path))
        try:
            yield _event("hello", greeting())
            while True:
                try:
                    async with asyncio.timeout(BEAT):
                        yield await listener.next()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._listeners.discard(listener)

    def send(self, what: str, data: dict[str, object], run: str | None = None) -> None:
        """Send an event to all pages, or to those that show a run."""
        event = _event(what, data)
        for listener in self._listeners:
            if run is None or run in listener.runs:
                listener.put(event)

    @property
    def has_listeners(self) -> bool:
        return bool(self._listeners)

    async def _follow(self, key: str, path: Path) -> None:
        try:
            tail = await self._workers.run(key, _tail, path)
            attempts = {segment.attempt for segment in await self._workers.run(key, layout.segments, path)}
            while any(key in listener.runs for listener in self._listeners):
                began = time.monotonic()
                batch = await self._workers.run(key, tail.read)
                if batch:
                    started = {one.attempt for one in batch if isinstance(one, records.Attempt)} - attempts
                    attempts |= started
                    self._send_rows(key, batch, restarted=bool(started))
                if not tail.more:
                    await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - began)))
        finally:
            self._followers.pop(key, None)

    def _send_rows(self, key: str, batch: list[AnyRecord], *, restarted: bool) -> None:
        rows = [row for record in batch if (row := _row(record)) is not None]
        if restarted or sum(len(row[2]) for row in rows) > MOST:
            self.send("stale", {"run": key}, key)
        elif rows:
            self.send("rows", {"run": key, "rows": rows}, key)
        if batch:
            self.send("news", {"run": key, "kinds": sorted({records.kind_of(one) for one in batch})}, key)


class _Listener:
    """A page: the runs it shows, and its pending events."""

    def __init__(self, runs: set[str]) -> None:
        self.runs = runs
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(WAITING)
        self._missed = False

    def put(self, event: bytes) -> None:
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self._missed = True

    async def next(self) -> bytes:
        if self._missed and self._queue.empty():
            self._missed = False
            return _event("stale", {})
        return await self._queue.get()


def _event(what: str, data: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (what.encode(), encode(data))


def _row(record: AnyRecord) -> tuple[int, Number | None, dict[str, Number]] | None:
    """(microseconds, step, points) of a record that has points."""
    points = dict(records.points(record))
    return (record.time // 1000, getattr(record, "step", None), points) if points else None


def _tail(path: Path) -> Tail:
    """A tail of the main rank that starts shortly before the end."""
    rank = min((segment.rank for segment in layout.segments(path)), default=0)
    return Tail(path, rank=rank, positions=near_end(path, BEHIND))
