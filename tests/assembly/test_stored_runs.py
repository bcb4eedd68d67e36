"""`chiplog.read` and `chiplog.runs`."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.core.errors import RunNotFound
from tests.core.run.begun import begin


def test_runs_are_found_by_id_prefix_name_and_latest(tmp_path: Path) -> None:
    """And an unknown one lists what there is."""
    for number in range(3):
        begin(tmp_path, id=f"run-{number}", name=f"name {number}").finish()
    assert [stored.id for stored in chiplog.runs(tmp_path)] == ["run-0", "run-1", "run-2"]
    for text in ("run-1", "p/run-1", "name 1", tmp_path / "p" / "run-1"):
        assert chiplog.read(text, dir=tmp_path).id == "run-1"
    assert chiplog.read(dir=tmp_path).id == "run-2"
    with pytest.raises(RunNotFound, match="matches 3 runs"):
        chiplog.read("run", dir=tmp_path)
    with pytest.raises(RunNotFound, match="p/run-0"):
        chiplog.read("other", dir=tmp_path)


def test_a_path_that_is_no_run_gives_the_reason(tmp_path: Path) -> None:
    """A table without a step is not a run, and an empty folder holds none."""
    (tmp_path / "bad.csv").write_text("loss,acc\n1,2\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunNotFound, match=r"none of its columns \(loss, acc\) is a step; rename one to 'step'"):
        chiplog.read(tmp_path / "bad.csv")
    with pytest.raises(RunNotFound, match="has no runs in a format that chiplog reads: tensorboard"):
        chiplog.read(tmp_path / "empty")
