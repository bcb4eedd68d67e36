"""Runs that this user may not read. With real users: `tests/faults/test_other_users.py`."""

from __future__ import annotations

import os
from pathlib import Path

from chiplog.store import layout
from chiplog.store.runs import access


def test_the_owner_is_named(tmp_path: Path) -> None:
    """By name if the machine has one, otherwise by number; one's own run gets a way out."""
    assert "chmod" in access.reason(tmp_path)
    if os.geteuid() == 0:
        os.chown(tmp_path, 61234, 61234)
        assert access.reason(tmp_path) == "belongs to user 61234"
    assert access.reason(tmp_path / "gone") == "No such file or directory"


def test_all_runs_can_be_read_here(tmp_path: Path) -> None:
    """A directory that is not a run, and one whose name cannot be that of a run, are not listed."""
    (tmp_path / "p" / "one" / layout.JOURNAL).mkdir(parents=True)
    (tmp_path / "lost+found").mkdir(mode=0)
    (tmp_path / "p" / "empty").mkdir()
    assert list(access.unreadable(tmp_path)) == []
    assert list(layout.walk(tmp_path)) == [(tmp_path / "p" / "one", True)]


def test_it_reads_as_a_sentence() -> None:
    """As lists print it."""
    assert str(access.UnreadableRun(Path("runs/p/one"), "belongs to bob")) == "p/one: not readable: belongs to bob"
