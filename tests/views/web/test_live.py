"""Live events."""

from __future__ import annotations

import math
import os
import socket
import time
from pathlib import Path

import chiplog
from tests.views.web import serving as tools


def test_what_is_written_now_is_told_at_once(tmp_path: Path) -> None:
    """A page that listens hears of a row soon after `log`, and of the run's end."""
    with chiplog.init("live", id="now", dir=tmp_path, sinks="none") as run, tools.serving(tmp_path) as served:
        run.log({"loss": 1.0}, step=0)
        key = served.keys()["now"]
        with socket.create_connection(("127.0.0.1", served.port), 10) as listening:
            listening.sendall(
                f"GET /api/live?runs={key} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {tools.TOKEN}\r\n\r\n".encode()
            )
            heard = _until(listening, b"hello")
            run.log({"loss": 2.5, "odd": math.inf}, step=1)
            began = time.monotonic()
            heard = _until(listening, b'"loss":2.5')
            assert time.monotonic() - began < 5
            assert b'"odd":"inf"' in heard
            run.finish()
            _until(listening, b"event: news")


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
        piece = connection.recv(65536)
        assert piece, heard
        heard += piece
    return heard
