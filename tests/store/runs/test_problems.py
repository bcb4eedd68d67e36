"""Files of a run that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

from chiplog.store.runs.problems import problems


def test_a_run_that_is_as_it_should_be_has_none(tmp_path: Path) -> None:
    """Also one that lacks everything."""
    assert problems(tmp_path) == []
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "r00000-a01-0000.jsonl").touch()
    (tmp_path / "run.json").touch()
    assert problems(tmp_path) == []


def test_each_has_its_reason(tmp_path: Path) -> None:
    """A pipe, a link, a folder that is a link."""
    (tmp_path / "journal").mkdir()
    os.mkfifo(tmp_path / "run.json")
    (tmp_path / "journal" / "r00000-a01-0000.jsonl").symlink_to("/dev/zero")
    (tmp_path / "parts").symlink_to("/")
    assert problems(tmp_path) == [
        "run.json: a pipe, not a file",
        "journal/r00000-a01-0000.jsonl: a link, and links inside a run are not followed",
        "parts: 'parts' is a link, and links inside a run are not followed",
    ]
