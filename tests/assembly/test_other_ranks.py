"""Ranks that keep no journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.run.begun import begin


@pytest.mark.parametrize("ranks", [0, "0,1", [1, 2]])
def test_other_ranks_write_nothing(
    ranks: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it is said who keeps a journal, nobody else does."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("CHIPLOG_RUN_ID", "run")
    with begin(tmp_path / "runs", ranks=ranks) as run:
        run.log({"x": 1.0})
    assert run.finish() and not (tmp_path / "runs").exists() and capsys.readouterr().err == ""


def test_a_rank_that_logs_nothing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default too: rank 0 owns the journal and the sinks."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with begin(tmp_path / "runs") as run, run.span("work"):
        run.event("seen")
    assert run.finish() and not (tmp_path / "runs").exists() and capsys.readouterr().err == ""
