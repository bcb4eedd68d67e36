"""The folders in which settings are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.core.files.working_directory import outside, outside_runs, trusted


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "runs" / "p" / "r" / "journal").mkdir(parents=True)
    (tmp_path / "runs" / "p" / "r" / "journal" / "r00000-a01-0000.jsonl").touch()
    return tmp_path / "runs" / "p" / "r"


def test_runs_and_what_is_in_them_are_left_out(run: Path, tmp_path: Path) -> None:
    """Also what looks like a project inside of a run."""
    inner = run / "files" / "project"
    inner.mkdir(parents=True)
    assert next(trusted(inner)) == run.parent
    assert list(trusted(run.parent)) == [run.parent, *run.parent.parents]
    assert outside(tmp_path) == tmp_path


def test_a_run_without_records_is_one(tmp_path: Path) -> None:
    """If it has a description and a journal, of whatever kind."""
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "run.json").touch()
    assert outside(tmp_path / "r") == tmp_path / "r"
    (tmp_path / "r" / "journal").symlink_to("nowhere")
    assert outside(tmp_path / "r") == tmp_path


def test_the_working_directory_is_restored(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error too."""
    monkeypatch.chdir(run)
    with pytest.raises(ValueError, match="x"), outside_runs():
        assert Path.cwd() == run.parent
        raise ValueError("x")
    assert Path.cwd() == run
