"""Requests that nobody would send by mistake: over all routes, from a seed, on raw sockets."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections import Counter
from typing import NamedTuple
from urllib.parse import quote, quote_from_bytes

ROUTES = (
    "/", "/main.js", "/api/runs", "/api/search", "/api/columns", "/api/run", "/api/series", "/api/points", "/api/samples", "/api/matrix",
    "/api/ranks", "/api/trace", "/api/timeline", "/api/goodput", "/api/perfetto", "/api/console", "/api/file",
    "/api/live", "/api/enter", "/api/nothing", "/api//run", "/api/../api/runs", "*", "http://127.0.0.1/", "",
)  # fmt: skip
NAMES = (
    "run", "q", "x", "n", "low", "high", "log", "table", "find", "column", "offset", "name", "at", "step", "rank",
    "since", "columns", "file", "runs", "brief", "smooth",
)  # fmt: skip
NUMBERS = ("0", "-1", "1", "1e308", "-1e308", "nan", "inf", "9" * 15, "9" * 400, "0x10", "1_000", "٣", "1e-320", "  7 ")
TEXTS = (
    "",
    "a",
    "train/loss",
    "tokens",
    "relative",
    "time",
    "samples",
    "moe/load",
    "%00",
    "\0",
    "é" * 50,
    "\u202e",
    "../..",
    "(" * 1000,
    "-" * 1000,
    "started>9999-12-31",
    "lr>0.1 or -name=[x*",
)
HEADERS = (
    "Connection: close", "Connection: keep-alive", "Transfer-Encoding: chunked", "Content-Length: 5", "Content-Length: -1",
    "Content-Length: 99999999999999999999", "Expect: 100-continue", "Range: bytes=0-10", "Upgrade: websocket",
    "Accept-Encoding: gzip", "Cookie: chiplog-1=x; a; =; ;;", "Sec-Fetch-Site: cross-site", "If-None-Match: *",
    "Authorization: Basic eA==", "Authorization: Bearer ", "Host: evil", "X: " + "y" * 30_000, "\u00ff: 1", ": empty",
    " folded: x", "A:\tb\x0bc", "Content-Type: application/json",
)  # fmt: skip


class Target(NamedTuple):
    """A server, its token, and keys of runs and files that exist."""

    port: int
    token: str
    runs: tuple[str, ...]
    files: tuple[str, ...]


class Fuzzer:
    """Sends requests, and counts the statuses of the answers."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target, self._random = target, random.Random(seed)
        self.statuses: Counter[str] = Counter()
        self.sent = 0
        self.findings: list[str] = []

    def turn(self) -> None:
        """One connection: a few requests, whole, torn, endless or never read."""
        chance = self._random
        requests = [self._request() for _ in range(chance.choice((1, 1, 1, 2, 8)))]
        data = b"".join(requests)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._target.port), 10) as one:
            one.settimeout(10 if b"/api/live" not in data else 0.05)
            self.sent += len(requests)
            kind = chance.random()
            if kind < 0.1:
                data = data[: chance.randrange(len(data) + 1)]
            elif kind < 0.2:
                data = self._damaged(data)
            elif kind < 0.23:
                data = data + b"X: y\r\n" * chance.randrange(20_000)
            one.sendall(data)
            if kind > 0.9:  # gone without reading
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.statuses["left"] += 1
                return
            one.shutdown(socket.SHUT_WR)
            answer = one.recv(4096)
            status = answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else "none"
            self.statuses[status] += 1
            if status == "500":
                self.findings.append(repr(data[:2000]))
            if chance.random() < 0.7:
                while one.recv(1 << 20):
                    pass

    def _request(self) -> bytes:
        chance = self._random
        method = chance.choice(("GET",) * 12 + ("HEAD", "HEAD", "POST", "OPTIONS", "CONNECT", "g\xc3t", "G" * 300))
        path = chance.choice(ROUTES)
        fields = [f"{self._name()}={self._value()}" for _ in range(chance.choice((0, 1, 2, 3, 4, 5, 100)))]
        if path.startswith("/api/") and chance.random() < 0.8:
            fields.append(f"run={chance.choice(self._target.runs)}")
        if path == "/api/file":
            fields.append(f"file={chance.choice(self._target.files)}")
        if path == "/api/search":
            fields.append(f"q={quote(chance.choice(TEXTS))}")
        if path in ("/api/series", "/api/points") and chance.random() < 0.8:
            fields.append(f"q={quote(self._charts())}")
        lines = [f"{method} {path}?{'&'.join(fields)} HTTP/{chance.choice(('1.1',) * 9 + ('1.0', '2.0'))}"]
        if chance.random() < 0.95:
            lines.append(f"Host: 127.0.0.1:{self._target.port}")
        if chance.random() < 0.9:
            lines.append(f"Authorization: Bearer {self._target.token}")
        lines += chance.sample(HEADERS, chance.choice((0, 0, 0, 0, 1, 2)))
        return ("\r\n".join([*lines, "", ""])).encode("latin-1", "replace")

    def _name(self) -> str:
        return self._random.choice(NAMES) if self._random.random() < 0.9 else quote(self._random.choice(TEXTS))

    def _value(self) -> str:
        chance = self._random
        kind = chance.random()
        if kind < 0.3:
            return quote(chance.choice(NUMBERS))
        if kind < 0.6:
            return quote(chance.choice(TEXTS))
        if kind < 0.8:
            return chance.choice((*self._target.runs, *self._target.files))
        return quote_from_bytes(chance.randbytes(chance.randrange(30)))

    def _charts(self) -> str:
        """Charts as the page asks for them, or nearly."""
        chance = self._random
        names = ("train/loss", "gpu/0/power", "nothing", "\\ud800", "")
        key = f'["{chance.choice(self._target.runs)}","{chance.choice(names)}"{chance.choice(("", ",0", ",-5", ",99", ",1e5"))}]'
        text = f"[[{','.join([key] * chance.choice((1, 1, 3, 250)))}]]"
        return (
            text if chance.random() < 0.8 else chance.choice(("[" * 5000, "{}", "[[1]]", text[:-2], "null", "[[[]]]"))
        )

    def _damaged(self, data: bytes) -> bytes:
        damaged = bytearray(data)
        for _ in range(self._random.randrange(1, 10)):
            damaged[self._random.randrange(len(damaged))] = self._random.randrange(256)
        return bytes(damaged)
