"""The archives in a folder that have certain files inside."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from chiplog.store.foreign.formats.archives.archived_runs import archives
from chiplog.store.foreign.protocol import Folder


def packed(path: Path, *names: str) -> None:
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, "x")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    packed(tmp_path / "both.zip", "task.json", "metrics.jsonl", "more")
    packed(tmp_path / "one.zip", "task.json")
    packed(tmp_path / "deep.zip", "inside/task.json", "inside/metrics.jsonl")
    (tmp_path / "damaged.zip").write_bytes(b"PK\x03\x04 not an archive")
    (tmp_path / "note.txt").write_text("beside them")
    return tmp_path


def test_archives_with_all_files_are_found_and_taken(folder: Path) -> None:
    """By exact names, so that no other format looks at them; everything else is left to the others."""
    opened = Folder.open(folder)
    (one,) = archives(opened, "task.json", "metrics.jsonl")
    assert one.path == folder / "both.zip" and one.is_packed and one.read("more", 9) == b"x"
    assert opened.taken == {"both.zip"}
    assert [one.path.name for one in archives(opened, "task.json")] == ["one.zip"]


def test_a_folder_that_was_not_packed_is_one_archive(folder: Path) -> None:
    """With everything in it, archives too, which would otherwise be runs of their own."""
    for name in ("task.json", "metrics.jsonl"):
        (folder / name).write_text("y")
    (folder / "below").mkdir()
    opened = Folder.open(folder)
    (one,) = archives(opened, "task.json", "metrics.jsonl")
    assert one.path == folder and not one.is_packed and one.read("task.json", 9) == b"y"
    assert opened.taken == {*opened.files, "below"}


def test_files_of_another_format_are_not_taken(folder: Path) -> None:
    """An archive that has been recognised already, and a folder with some of the files."""
    (folder / "task.json").write_text("y")
    opened = Folder.open(folder)
    opened.taken.add("both.zip")
    assert list(archives(opened, "task.json", "metrics.jsonl")) == []
    assert opened.taken == {"both.zip"}
