"""The server as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.web.server import address, listen
from tests.views.web import stores


def test_what_was_found_is_remembered_outside_of_the_runs(tmp_path: Path) -> None:
    """The next start has the list before it has looked; nothing is written where the runs are."""
    root, cache = tmp_path / "runs", tmp_path / "cache"
    stores.simple(root, "one")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    first = SummaryCache(root, cache)
    assert first.refresh()
    first.save()
    again = SummaryCache(root, cache)
    assert [entry.id for entry in again.entries()] == ["one"]
    assert not again.refresh()
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    assert {path.stat().st_mode & 0o77 for path in cache.rglob("*")} == {0}


@pytest.mark.parametrize("damage", [b"", b"\x81", b"\xff" * 100, b"{}"])
def test_a_damaged_memory_is_forgotten(tmp_path: Path, damage: bytes) -> None:
    """The runs themselves are the truth."""
    root, cache = tmp_path / "runs", tmp_path / "cache"
    stores.simple(root, "one")
    first = SummaryCache(root, cache)
    first.refresh()
    first.save()
    next((cache / "runs").iterdir()).write_bytes(damage)
    again = SummaryCache(root, cache)
    assert again.entries() == []
    assert again.refresh() and len(again.entries()) == 1


def test_a_port_in_use_is_reported_with_a_way_out() -> None:
    """The error names the port, and the option that takes a free one."""
    with listen("127.0.0.1", 0) as taken, pytest.raises(OSError, match="--port 0"):
        listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "start"),
    [("127.0.0.1", "http://127.0.0.1:80/#token="), ("::1", "http://[::1]:80/"), ("0.0.0.0", "http://127.0.0.1:80/")],
)
def test_the_address_is_one_that_a_browser_opens(host: str, start: str) -> None:
    """IPv6 in brackets; a server for everybody is shown by its local address."""
    assert address(host, 80, "x").startswith(start)
