"""The private file that leads a browser to the page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chiplog.views.web.token_file import token_file

ADDRESS = "http://127.0.0.1:8080/#token=0123456789abcdef"


def test_the_file_is_private_and_temporary(tmp_path: Path) -> None:
    """Nobody else can read it or list its folder, and it goes with the server."""
    with token_file(ADDRESS, tmp_path / "cache") as path:
        assert f"url={ADDRESS}" in path.read_text()
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not path.exists()


def test_two_servers_have_two_files(tmp_path: Path) -> None:
    """The end of one leaves that of the other."""
    with token_file(ADDRESS, tmp_path) as first:
        with token_file(ADDRESS, tmp_path) as second:
            assert first != second
        assert first.exists() and not second.exists()


def test_a_cache_directory_that_cannot_be_written_is_replaced(tmp_path: Path) -> None:
    """A file where the directory should be costs nothing."""
    (tmp_path / "cache").write_text("")
    with token_file(ADDRESS, tmp_path / "cache") as path:
        assert path.parent.stat().st_mode & 0o777 == 0o700 and path.parent.stat().st_uid == os.geteuid()
    assert not path.parent.exists()


@pytest.mark.parametrize("address", ['http://x/"><script>', "http://x/?a&b'"])
def test_an_address_cannot_leave_its_attribute(tmp_path: Path, address: str) -> None:
    """Host names come from the command line."""
    with token_file(address, tmp_path) as path:
        assert "<script>" not in path.read_text() and address not in path.read_text()
