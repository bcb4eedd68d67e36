"""A small HTTP server for one person's browser: GET and HEAD, no request bodies, a time limit on every wait.

h11 handles the protocol. The number of connections is limited: a new one replaces the one that has been idle longest. A
client that reads nothing for a while is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from math import isfinite
from typing import NamedTuple
from urllib.parse import parse_qs, unquote_to_bytes

import h11

from chiplog.core import messages
from chiplog.views.strict_json import encode

CONNECTIONS = 160  # at once
HEAD = 32 << 10  # bytes of a request
PATIENCE = 10.0  # s for a request to arrive once it has started, and for a new connection to send one
IDLE = 60.0  # s between requests
SLOW = 30.0  # s in which a client must read something
PIECE = 256 << 10
PRIVATE = ("cache-control", "no-store")


class Request(NamedTuple):
    method: str
    path: str  # decoded once
    query: Mapping[str, str]  # the last of several values of a name
    headers: list[tuple[str, str]]  # names in lowercase
    target: str  # as it was sent

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    def whole(self, name: str, default: int = 0) -> int:
        """A query parameter as a whole number; the default if it is not one."""
        text = self.query.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else default

    def number(self, name: str) -> float | None:
        """A query parameter as a finite number; None if it is not one."""
        try:
            value = float(self.query[name])
        except (KeyError, ValueError):
            return None
        return value if isfinite(value) else None


class Response(NamedTuple):
    """A response; a body that is an iterator is streamed until the client leaves."""

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    headers: tuple[tuple[str, str], ...] = ()


App = Callable[[Request], Awaitable[Response]]


def json_response(data: object, status: int = 200, *headers: tuple[str, str]) -> Response:
    """Data as JSON, which nobody may cache."""
    return Response(status, encode(data), (("content-type", "application/json"), PRIVATE, *headers))


class Server:
    """Serves an application on a bound socket."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._idle: dict[asyncio.Task[None], float] = {}  # connections waiting for a request, oldest first
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, listening: socket.socket) -> None:
        """Serve until cancelled."""
        server = await asyncio.start_server(self._connected, sock=listening, limit=HEAD, backlog=128)
        async with server:
            try:
                await server.serve_forever()
            finally:
                for task in list(self._open):
                    task.cancel()
                await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= CONNECTIONS:
            for oldest in list(self._idle)[:1]:
                del self._idle[oldest]
                self._open.discard(oldest)
                oldest.cancel()
        busy = len(self._open) >= CONNECTIONS
        self._open.add(task)
        try:
            if busy:
                return
            await self._converse(task, reader, writer)
        except (TimeoutError, ConnectionError, OSError, h11.ProtocolError):
            pass
        except asyncio.CancelledError:
            pass  # to make room, or at the end
        finally:
            self._open.discard(task)
            self._idle.pop(task, None)
            writer.transport.abort()

    async def _converse(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD)
        wait = PATIENCE
        while True:
            self._idle[task] = time.monotonic()
            try:
                event = await _receive(connection, reader, wait)
            except h11.RemoteProtocolError as error:
                self._idle.pop(task, None)
                if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    answer = json_response({"error": "malformed request"}, error.error_status_hint)
                    await self._send(connection, writer, answer, close=True)
                return
            self._idle.pop(task, None)
            if not isinstance(event, h11.Request):
                return
            request = _request(event)
            body = event.method not in (b"GET", b"HEAD") or _has_body(request)
            answer = await self._answer(request)
            await self._send(connection, writer, answer, close=body)
            if body or connection.our_state is not h11.DONE:
                return
            while connection.their_state is h11.SEND_BODY:  # only its end is left
                await _receive(connection, reader, PATIENCE)
            if connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()
            wait = IDLE

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._app(request)
        except Exception as error:  # one failure must not affect other requests
            messages.say(f"{request.method} {request.path[:200]!r} failed: {type(error).__name__}: {error}")
            return json_response({"error": "internal error; see the terminal"}, 500)

    async def _send(
        self, connection: h11.Connection, writer: asyncio.StreamWriter, answer: Response, *, close: bool
    ) -> None:
        headers = [(key.encode(), value.encode("latin-1", "replace")) for key, value in answer.headers]
        if isinstance(answer.body, bytes):
            headers.append((b"content-length", str(len(answer.body)).encode()))
        if close:
            headers.append((b"connection", b"close"))
        await _write(writer, connection.send(h11.Response(status_code=answer.status, headers=headers)))
        if isinstance(answer.body, bytes):
            if answer.body and connection.their_state is not h11.ERROR:
                data = connection.send(h11.Data(answer.body)) or b""  # empty for HEAD
                for at in range(0, len(data), PIECE):
                    await _write(writer, data[at : at + PIECE])
        else:
            async with contextlib.aclosing(answer.body) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    await _write(writer, connection.send(h11.Data(piece)))
        await _write(writer, connection.send(h11.EndOfMessage()))


async def _receive(connection: h11.Connection, reader: asyncio.StreamReader, wait: float) -> object:
    """The next event; the whole head of a request must arrive in time, however slowly its bytes come."""
    async with asyncio.timeout(wait):
        size = 0
        while (event := connection.next_event()) is h11.NEED_DATA:
            data = await reader.read(8192)
            size += len(data)
            if size > HEAD:
                raise h11.RemoteProtocolError("too long", error_status_hint=431)
            connection.receive_data(data)
    return event


async def _write(writer: asyncio.StreamWriter, data: bytes | None) -> None:
    if data:
        writer.write(data)
        async with asyncio.timeout(SLOW):
            await writer.drain()


def _request(event: h11.Request) -> Request:
    target = event.target.decode("latin-1")
    path, _, query = target.partition("?")
    try:
        fields = parse_qs(query, keep_blank_values=True, errors="replace", max_num_fields=64)
    except ValueError:
        fields = {}
    return Request(
        method=event.method.decode("latin-1"),
        path=unquote_to_bytes(path).decode("utf-8", "replace"),
        query={key: values[-1] for key, values in fields.items()},
        headers=[(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in event.headers],
        target=target,
    )


def _has_body(request: Request) -> bool:
    length = request.header("content-length")
    return request.header("transfer-encoding") is not None or length not in (None, "0")
