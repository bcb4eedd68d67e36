"""A file as the body of a response."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from chiplog.views.web.responses.file_body import PIECE, FileBody
from chiplog.views.web.workers import Workers


def _body(path: Path, size: int) -> tuple[FileBody, int]:
    descriptor = os.open(path, os.O_RDONLY)
    return FileBody(descriptor, size, Workers(1)), descriptor


def test_a_file_comes_in_pieces_up_to_the_size_it_had(tmp_path: Path) -> None:
    """A file that grows while it is sent does not make the response endless."""
    file, data = tmp_path / "file", os.urandom(2 * PIECE + 10)
    file.write_bytes(data + b"more")

    async def main() -> list[bytes]:
        return [piece async for piece in _body(file, len(data))[0]]

    pieces = asyncio.run(main())
    assert b"".join(pieces) == data and max(map(len, pieces)) == PIECE


def test_a_body_that_nobody_reads_closes_its_file(tmp_path: Path) -> None:
    """A client that leaves before the first byte costs no open file."""
    file = tmp_path / "file"
    file.write_bytes(b"data")
    body, descriptor = _body(file, 4)
    asyncio.run(body.aclose())
    with pytest.raises(OSError):
        os.fstat(descriptor)
    body, descriptor = _body(file, 4)
    del body
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_a_file_that_shrinks_ends(tmp_path: Path) -> None:
    """What is missing is not waited for."""
    file = tmp_path / "file"
    file.write_bytes(b"data")

    async def main() -> list[bytes]:
        return [piece async for piece in _body(file, 100)[0]]

    assert asyncio.run(main()) == [b"data"]
