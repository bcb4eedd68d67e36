"""Many who listen, some of them badly, while a run is written."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import chiplog
from tests.views.web import serving as tools


def test_many_listeners_cost_little(tmp_path: Path) -> None:
    """Fifty pages and one that never reads: all who read hear of every burst and of what comes after it, and nothing piles up for the other."""
    with chiplog.init("live", id="now", dir=tmp_path, sinks="none") as run, tools.serving(tmp_path) as served:
        run.log({"loss": 1.0}, step=0)
        key = served.keys()["now"]
        ask = (
            f"GET /api/live?runs={key} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
            f"Authorization: Bearer {tools.TOKEN}\r\n\r\n"
        ).encode()
        listeners = [socket.create_connection(("127.0.0.1", served.port), 20) for _ in range(51)]
        try:
            for one in listeners:
                one.sendall(ask)
            deaf, *rest = listeners
            for one in rest:
                _until(one, b"hello")
            before = _memory()
            row = {f"series-{n}": float(n) for n in range(200)}
            for step in range(1, 2000):
                run.log(row, step=step)
            for step, one in enumerate(rest, start=2000):
                one.settimeout(0.3)
                _hear(one, lambda step=step: run.log({"last": 1.0}, step=step))  # type: ignore[misc]
            assert _memory() - before < 200 << 20
            assert len(os.listdir("/proc/self/fd")) < 256
            assert served.ask("/api/runs").status == 200
            assert deaf.fileno() >= 0
        finally:
            for one in listeners:
                one.close()


def test_a_listener_that_leaves_is_forgotten(tmp_path: Path) -> None:
    """A server on which pages come and go keeps no thread, file or follower of them."""
    with chiplog.init("live", id="now", dir=tmp_path, sinks="none") as run, tools.serving(tmp_path) as served:
        run.log({"loss": 1.0}, step=0)
        key = served.keys()["now"]
        count = len(os.listdir("/proc/self/fd"))
        for _ in range(40):
            with socket.create_connection(("127.0.0.1", served.port), 20) as one:
                one.sendall(
                    f"GET /api/live?runs={key} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
                    f"Authorization: Bearer {tools.TOKEN}\r\n\r\n".encode()
                )
                _until(one, b"hello")
        end = time.monotonic() + 20
        step = 0
        while len(os.listdir("/proc/self/fd")) > count + 5 and time.monotonic() < end:
            run.log({"loss": 1.0}, step=(step := step + 1))  # what is sent to one that has left shows that it has
            time.sleep(0.05)
        assert len(os.listdir("/proc/self/fd")) <= count + 5


def _until(connection: socket.socket, words: bytes) -> bytes:
    heard = b""
    while words not in heard:
        piece = connection.recv(1 << 20)
        assert piece, "the server has closed the connection"
        heard = (heard + piece)[-100_000:]
    return heard


def _hear(connection: socket.socket, speak: Callable[[], object]) -> None:
    """Read what has come, and what is said whenever nothing comes, until that is heard."""
    heard = b""
    end = time.monotonic() + 30
    while b'"last":1' not in heard and time.monotonic() < end:
        try:
            heard = heard[-1000:] + connection.recv(1 << 20)
        except TimeoutError:
            speak()
    assert b'"last":1' in heard


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
