"""Artifacts, which are files of the run."""

from __future__ import annotations

from pathlib import Path

import mlflow

import chiplog
from chiplog.core.records import File


def test_artifacts_are_files_of_the_run(tmp_path: Path) -> None:
    """In its directory as soon as they are logged, and among its records when it ends."""
    with mlflow.start_run() as active:
        mlflow.log_text("hello", "notes/a.txt")
        stored = chiplog.read(tmp_path / "runs" / "default" / active.info.run_id)
        assert (stored.path / "files/artifacts/notes/a.txt").read_text() == "hello"
        assert active.info.artifact_uri == str(stored.path / "files" / "artifacts")
    (file,) = [record for record in stored.records("file") if isinstance(record, File) and "artifacts" in record.path]
    assert (file.name, file.path, file.media, file.size) == (
        "notes/a.txt",
        "files/artifacts/notes/a.txt",
        "text/plain",
        5,
    )
