"""The server of `chiplog ui`: listens on a socket, and keeps the list of runs fresh while it serves."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chiplog.core import messages
from chiplog.core.values.text import words
from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.web.auth import Auth, is_loopback
from chiplog.views.web.http import Server
from chiplog.views.web.routes import Site

if TYPE_CHECKING:
    from chiplog.views.web.compactor import Compactor

POLL = 1.0  # s between reads of the directory while a page is open
COMPLETING = 0.05  # s of each refresh for values that are far from the end of a journal
SAVE = 10.0  # s between saves of the cache
STOPPING = 0.4  # s that reads may take to end


class StillReading(BaseException):
    """The server has stopped, but a thread is still reading a run: leave without waiting for it."""


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host.strip("[]"), port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"{error.strerror}: port {port} of {host}; --port 0 takes a free one") from None
    bound.listen(128)
    return bound


def address(host: str, port: int, token: str) -> str:
    name = host if is_loopback(host) else "127.0.0.1"
    return f"http://{f'[{name}]' if ':' in name and '[' not in name else name}:{port}/#token={token}"


async def serve(
    root: Path,
    listening: socket.socket,
    *,
    token: str,
    cache: Path | None,
    hosts: Collection[str] = (),
    others: Sequence[Path] = (),
    compact: Mapping[str, str] | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve the runs under some directories until cancelled; raises `StillReading` if a thread still reads then.

    With the environment of a process to `compact` them, runs that have ended are compacted.
    """
    summaries = SummaryCache(root, cache, others)
    site = Site(summaries)
    compactor = None
    if compact is not None:
        from chiplog.views.web.compactor import Compactor  # imports subprocess, which the first page need not wait for

        compactor = Compactor(summaries, compact)
    port = listening.getsockname()[1]
    auth = Auth(site, token=token, port=port, hosts=hosts)
    server = Server(auth, auth.trusts)
    refreshing = asyncio.create_task(_refresh(site, summaries, compactor))
    ready()
    try:
        await server.serve(listening)
    finally:
        refreshing.cancel()
        if compactor is not None:
            compactor.stop()
        if not site.join(STOPPING):
            raise StillReading
        summaries.save()


async def _refresh(site: Site, summaries: SummaryCache, compactor: Compactor | None = None) -> None:
    """Keep the summaries fresh: often while a page is open, and for at most a tenth of the time."""
    saved = 0.0
    await asyncio.sleep(0.05)  # let the first page load first
    await site.readers.run("", site.load)
    while True:
        start = time.monotonic()
        try:
            changed = await site.workers.run("refresh", summaries.refresh)
            if await site.workers.run("refresh", lambda: summaries.complete(COMPLETING)) or changed:
                site.feed.send("runs", {"version": summaries.version})
            if time.monotonic() - saved > SAVE:
                saved = time.monotonic()
                await site.workers.run("refresh", summaries.save)
            if compactor is not None:
                await site.workers.run("refresh", compactor.look)
        except Exception as error:  # a directory that cannot be read comes and goes; the list looks again
            messages.once(f"refresh {words(error)}", f"the list of runs cannot be read: {words(error)}")
        taken = time.monotonic() - start
        await asyncio.sleep(max(POLL if site.feed.has_listeners else 5 * POLL, 10 * taken))
