"""Artifacts before a run has logged them: files under names, from anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from chiplog.compat.wandb.data.artifact import Artifact


def test_files_and_folders_have_names(tmp_path: Path) -> None:
    """A file its own or another one, those of a folder their paths in it."""
    (tmp_path / "data" / "deep").mkdir(parents=True)
    for name in ("a.txt", "deep/b.txt"):
        (tmp_path / "data" / name).write_text(name)
    artifact = Artifact("model", "weights")
    artifact.add_path(tmp_path / "data")
    artifact.add_dir(tmp_path / "data", "copy")
    artifact.add_file(tmp_path / "data" / "a.txt", name="renamed.txt")
    assert set(artifact.files_by_name) == {"a.txt", "deep/b.txt", "copy/a.txt", "copy/deep/b.txt", "renamed.txt"}
    assert artifact.size == 3 * len("a.txt") + 2 * len("deep/b.txt")
    assert artifact.is_draft() and artifact.id == "model:draft"


def test_a_missing_file_is_reported_and_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script goes on without it."""
    artifact = Artifact("model", "weights")
    artifact.add_file(tmp_path / "missing.bin")
    assert artifact.files_by_name == {} and "missing.bin" in capsys.readouterr().err


def test_new_files_live_as_long_as_their_artifact() -> None:
    """They are written to a folder of their own, which goes with it."""
    artifact = Artifact("model", "weights")
    with artifact.new_file("notes/a.txt") as file:
        file.write("text")
    path = artifact.files_by_name["notes/a.txt"]
    assert path.read_text() == "text"
    del artifact
    assert not path.exists()


def test_a_table_is_added_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Any other object is reported."""
    artifact = Artifact("model", "weights")
    artifact.add(SimpleNamespace(columns=["x"], data=[[1]]), "rows")
    artifact.add(object(), "other")
    assert list(artifact.files_by_name) == ["rows.table.json"]
    assert json.loads(artifact.files_by_name["rows.table.json"].read_text()) == {"columns": ["x"], "data": [[1]]}
    assert "Artifact.add(object)" in capsys.readouterr().err
