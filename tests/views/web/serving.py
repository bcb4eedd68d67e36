"""A server for tests, in this process; and requests as raw as an attacker would send them."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from chiplog.views.web import server

TOKEN = "a-token-for-tests-0123456789"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    raw: bytes


class Served(NamedTuple):
    port: int
    root: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def send(self, data: bytes) -> Answer:
        """One request as it is, on a connection of its own."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as connection:
            connection.sendall(data)
            raw = b""
            while b"\r\n\r\n" not in raw and (piece := connection.recv(65536)):
                raw += piece
            head, _, body = raw.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines[1:] if ":" in line)
            }
            wanted = int(headers.get("content-length", 0)) if not data.startswith(b"HEAD") else 0
            while len(body) < wanted and (piece := connection.recv(1 << 20)):
                body += piece
            status = int(lines[0].split()[1]) if lines[0].startswith("HTTP/1.1 ") else 0
            return Answer(status, headers, body, raw)

    def ask(
        self, path: str, *headers: str, method: str = "GET", host: str | None = None, token: str | None = TOKEN
    ) -> Answer:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host if host is not None else f'127.0.0.1:{self.port}'}"]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        return self.send("\r\n".join([*lines, *headers, "", ""]).encode("latin-1"))

    def get(self, path: str, **params: Any) -> Any:
        found = self.ask(f"/api/{path}?{urlencode(params)}")
        assert found.status == 200, found.body
        return json.loads(found.body)

    def keys(self) -> dict[str, str]:
        """The key of each run by its id."""
        return {run["id"]: run["key"] for run in self.get("runs")["runs"]}


@contextmanager
def serving(root: Path, cache: Path | None = None, hosts: tuple[str, ...] = ()) -> Iterator[Served]:
    """Serve a directory of runs until the end of the block."""
    listening = server.listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    ready = threading.Event()
    stop: list[Any] = []

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        stop.append(lambda: loop.call_soon_threadsafe(task.cancel))
        try:
            await server.serve(root, listening, token=TOKEN, cache=cache, hosts=hosts, ready=ready.set)
        except (asyncio.CancelledError, server.StillReading):
            pass

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="served", daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield Served(port, root)
    finally:
        stop[0]()
        thread.join(20)
        assert not thread.is_alive()
