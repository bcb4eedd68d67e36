"""`chiplog demo`."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog

from .conftest import Cli


def test_it_trains_and_shows_what_to_try_next(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is in the directory that `--dir` names, and the commands name the run."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # the command would set it for this process
    code, out, _ = cli("demo", "--seconds", "0.5", "--dir", tmp_path / "here")
    (run,) = chiplog.runs(tmp_path / "here")
    assert code == 0 and run.project == "demo" and run.state == "finished"
    assert "train/loss" in out and f"show {run.path}" in out


def test_it_needs_some_time(cli: Cli) -> None:
    """Zero seconds are a usage error, before anything is imported or written."""
    code, _, err = cli("demo", "--seconds", "0")
    assert code == 2 and "--seconds 0" in err
