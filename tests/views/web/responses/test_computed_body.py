"""Bytes that are computed while they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chiplog.views.web.responses.computed_body import ComputedBody
from chiplog.views.web.responses.file_body import PIECE
from chiplog.views.web.workers import Workers


def test_packets_are_sent_in_pieces() -> None:
    """Small ones together, and all of them."""
    packets = [bytes([n % 256]) * 1000 for n in range(1000)]

    async def main() -> list[bytes]:
        return [piece async for piece in ComputedBody(iter(packets), Workers(1), "x")]

    pieces = asyncio.run(main())
    assert b"".join(pieces) == b"".join(packets)
    assert len(pieces) == 4 and max(map(len, pieces)) < PIECE + 1000


def test_nothing_is_computed_for_a_client_that_has_left() -> None:
    """Beyond the first packet."""
    computed = []

    def packets() -> Iterator[bytes]:
        for n in range(10):
            computed.append(n)
            yield b"x"

    async def main() -> list[bytes]:
        body = ComputedBody(packets(), Workers(1), "x")
        await body.aclose()
        return [piece async for piece in body]

    assert asyncio.run(main()) == [] and computed == [0]


def test_an_error_at_the_start_is_raised_at_once() -> None:
    """It can still become a response."""

    def packets() -> Iterator[bytes]:
        raise ValueError("no spans")
        yield b""

    with pytest.raises(ValueError, match="no spans"):
        ComputedBody(packets(), Workers(1), "x")
