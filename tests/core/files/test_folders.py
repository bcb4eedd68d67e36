"""Folders of a run, opened without following a link inside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chiplog.core.files import folders


@pytest.mark.parametrize("mode", [0o700, 0o750])
def test_a_folder_of_a_run_is_opened_and_made(run: Path, mode: int) -> None:
    """Missing folders are created with the permissions of the run, if asked for."""
    run.chmod(mode)
    folders.check_folder(run, ["files", "inner"])
    with pytest.raises(FileNotFoundError):
        folders.check_folder(run, ["parts"])
    folders.check_folder(run, ["parts", "more"], make=True)
    assert (run / "parts" / "more").is_dir()
    assert (run / "parts").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("parts", [["files", "folder"], ["files", "folder", "new"], ["files", "plain"]])
def test_a_link_or_a_file_is_not_a_folder(run: Path, tmp_path: Path, parts: list[str]) -> None:
    """A link to a folder is refused by name, and nothing is created behind it."""
    with pytest.raises(OSError, match=r"is a link, and links inside a run|Not a directory"):
        folders.check_folder(run, parts, make=True)
    assert os.listdir(tmp_path / "outside") == ["secret"]


def test_links_on_the_way_to_a_run_are_the_users_own(run: Path, tmp_path: Path) -> None:
    """A linked directory of runs, a linked project and a linked run work."""
    (tmp_path / "linked").symlink_to(tmp_path / "runs")
    (tmp_path / "project").symlink_to(tmp_path / "runs" / "project")
    (tmp_path / "run").symlink_to(run)
    for place in ("linked/project/run", "project/run", "run"):
        folders.check_folder(tmp_path / place, ["files", "inner"])


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\0b", "a\\b", "a/"])
def test_a_path_that_leads_out_is_refused(name: str) -> None:
    """Absolute paths, dots and empty names never reach the system."""
    with pytest.raises(OSError, match="not a path inside the run"):
        folders.parts_of(name)


def test_the_run_of_a_path_is_found_by_its_text(run: Path, tmp_path: Path) -> None:
    """A path through a link inside a run still belongs to the run; a path elsewhere belongs to none."""
    assert folders.run_of(run / "files" / "folder" / "x") == (run, "files/folder/x")
    assert folders.run_of(run / "files" / ".." / "parts" / "x") == (run, "parts/x")
    assert folders.run_of(tmp_path / "outside" / "x") is None
    (run / "run.json").unlink()
    assert folders.run_of(run / "files" / "x") == (run, "files/x")
    assert folders.run_of(run / "other" / "x") is None


def test_a_run_behind_a_link_inside_a_run_is_not_taken_for_the_run(run: Path, tmp_path: Path) -> None:
    """The maker of the outer run chose where the link leads, perhaps to a run of the user's own."""
    mine = tmp_path / "mine"
    (mine / "journal").mkdir(parents=True)
    (mine / "journal" / "r00000-a01-0000.jsonl").touch()
    (run / "files" / "other").symlink_to(mine)
    assert folders.run_of(run / "files" / "other" / "metrics.csv") == (run, "files/other/metrics.csv")
    assert folders.run_of(mine / "metrics.csv") == (mine, "metrics.csv")
    (run / "files" / "copied").mkdir()
    (run / "files" / "copied" / "journal").mkdir()
    (run / "files" / "copied" / "journal" / "r00000-a01-0000.jsonl").touch()
    assert folders.run_of(run / "files" / "copied" / "x") == (run / "files" / "copied", "x")
