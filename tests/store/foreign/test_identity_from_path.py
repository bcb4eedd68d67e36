"""Runs that have no identity but their place."""

from __future__ import annotations

from pathlib import Path

from chiplog.store.foreign.identity_from_path import identity


def test_a_run_is_named_after_its_file(tmp_path: Path) -> None:
    """And its project after the folder; the same name elsewhere is another run."""
    one = identity(tmp_path / "sweep" / "lr.csv", "files")
    other = identity(tmp_path / "again" / "lr.csv", "files")
    assert (one.project, one.name) == ("sweep", "lr") and one.id.startswith("lr-")
    assert one.id != other.id and one.id == identity(tmp_path / "sweep" / "lr.csv", "files").id


def test_a_file_with_the_name_of_all_such_files_is_named_after_its_folder(tmp_path: Path) -> None:
    """Thousands of runs are called `progress.csv`."""
    about = identity(tmp_path / "sweep" / "seed-1" / "progress.csv", "files", ["progress"])
    assert (about.project, about.name) == ("sweep", "seed-1")


def test_a_file_at_the_top_has_the_default_project() -> None:
    """There is no folder to name it after."""
    assert identity(Path("/lr.csv"), "files").project == "files"
