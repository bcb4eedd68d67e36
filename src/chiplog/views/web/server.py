"""The server of `chiplog ui`: listens on a socket, and keeps the list of runs fresh while it serves."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Collection
from pathlib import Path

from chiplog.store.runs.catalog import Catalog
from chiplog.views.web.auth import Auth, is_loopback
from chiplog.views.web.http import Server
from chiplog.views.web.routes import Site

POLL = 1.0  # s between reads of the directory while a page is open
SAVE = 10.0  # s between saves of the cache


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
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve the runs under a directory until cancelled."""
    catalog = Catalog(root, cache)
    site = Site(catalog)
    port = listening.getsockname()[1]
    server = Server(Auth(site, token=token, port=port, hosts=hosts))
    refreshing = asyncio.create_task(_refresh(site, catalog))
    ready()
    try:
        await server.serve(listening)
    finally:
        refreshing.cancel()
        catalog.save()


async def _refresh(site: Site, catalog: Catalog) -> None:
    """Keep the catalog fresh: often while a page is open, and for at most a tenth of the time."""
    saved = 0.0
    await asyncio.sleep(0.05)  # let the first page load first
    await asyncio.to_thread(site.load)
    while True:
        start = time.monotonic()
        if await asyncio.to_thread(catalog.refresh):
            site.feed.send("runs", {"version": catalog.version})
        if time.monotonic() - saved > SAVE:
            saved = time.monotonic()
            await asyncio.to_thread(catalog.save)
        taken = time.monotonic() - start
        await asyncio.sleep(max(POLL if site.feed.has_listeners else 5 * POLL, 10 * taken))
