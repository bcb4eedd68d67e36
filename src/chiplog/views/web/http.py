"""A small HTTP server for one person's browser: GET and HEAD, no request bodies, a time limit on every wait.

h11 handles the protocol, and `connections.py` decides who has to leave when there are too many. A client that reads
nothing for a while is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from math import isfinite
from typing import NamedTuple, Protocol
from urllib.parse import parse_qs, unquote_to_bytes

import h11

from chiplog.core import messages
from chiplog.views.strict_json import encode
from chiplog.views.web.connections import Connection, Connections

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


class BodyStream(Protocol):
    """A body that is sent piece by piece, until the client leaves."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


class Response(NamedTuple):
    """A response; its body may be a stream."""

    status: int = 200
    body: bytes | BodyStream = b""
    headers: tuple[tuple[str, str], ...] = ()


App = Callable[[Request], Awaitable[Response]]


def json_response(data: object, status: int = 200, *headers: tuple[str, str]) -> Response:
    """Data as JSON, which must not be cached."""
    return Response(status, encode(data), (("content-type", "application/json"), PRIVATE, *headers))


class Server:
    """Serves an application on a bound socket; `trusts` tells whether a request shows that its client may see runs."""

    def __init__(self, app: App, trusts: Callable[[Request], bool] = lambda _: False) -> None:
        self._app, self._trusts = app, trusts
        self._connections = Connections()

    async def serve(self, listening: socket.socket) -> None:
        """Serve until cancelled."""
        server = await asyncio.start_server(self._connected, sock=listening, limit=HEAD, backlog=128)
        try:
            # Not `serve_forever`: when that is cancelled, Python 3.12 and later wait for the clients to leave.
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            await self._connections.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with self._connections.admit() as connection:
                await self._converse(connection, reader, writer)
        except (TimeoutError, ConnectionError, OSError, h11.ProtocolError):
            pass
        except asyncio.CancelledError:
            pass  # to make room, or at the end
        except Exception as error:  # in the middle of a response: the connection is closed, the others stay
            messages.say(f"a response broke off: {type(error).__name__}: {error}")
        finally:
            writer.transport.abort()

    async def _converse(self, client: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD)
        wait = PATIENCE
        while True:
            try:
                event = await _receive(connection, reader, wait)
            except h11.RemoteProtocolError as error:
                if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    answer = json_response({"error": "malformed request"}, error.error_status_hint)
                    await self._send(connection, writer, answer, close=True)
                return
            if not isinstance(event, h11.Request):
                return
            request = _request(event)
            if self._trusts(request):
                self._connections.trust(client)
            body = event.method not in (b"GET", b"HEAD") or _has_body(request)
            with self._connections.busy(client):
                answer = await self._answer(request)
                self._connections.hold(client, len(answer.body) if isinstance(answer.body, bytes) else 0)
                async with asyncio.timeout(None if client.trusted else PATIENCE):
                    await self._send(connection, writer, answer, close=body, head_only=request.method == "HEAD")
                del answer
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
        self,
        connection: h11.Connection,
        writer: asyncio.StreamWriter,
        answer: Response,
        *,
        close: bool,
        head_only: bool = False,
    ) -> None:
        headers = [(key.encode(), value.encode("latin-1", "replace")) for key, value in answer.headers]
        if isinstance(answer.body, bytes):
            headers.append((b"content-length", str(len(answer.body)).encode()))
        if close:
            headers.append((b"connection", b"close"))
        head = connection.send(h11.Response(status_code=answer.status, headers=headers))
        if isinstance(answer.body, bytes):
            await _write(writer, head)
            if answer.body and connection.their_state is not h11.ERROR:
                data = connection.send(h11.Data(answer.body)) or b""  # empty for HEAD
                for at in range(0, len(data), PIECE):
                    await _write(writer, data[at : at + PIECE])
        else:
            async with contextlib.aclosing(answer.body) as pieces:
                await _write(writer, head)
                if not head_only:
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
