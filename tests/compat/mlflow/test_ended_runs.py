"""Runs that a search has read before."""

from __future__ import annotations

from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

import chiplog
from chiplog.compat.mlflow import ended_runs, facts
from chiplog.compat.mlflow.ended_runs import EndedRuns


def test_a_search_sees_what_has_changed() -> None:
    """Since the search before, in the same process."""
    client = MlflowClient()
    run_id = client.create_run("0").info.run_id
    client.set_terminated(run_id)
    for value in (1.0, 2.0):
        client.log_metric(run_id, "loss", value, step=int(value))
        client.set_terminated(run_id)
        assert [run.data.metrics for run in client.search_runs(["0"])] == [{"loss": value}]


def test_the_caller_owns_what_it_gets() -> None:
    """Its changes are not in the next answer."""
    with mlflow.start_run():
        mlflow.log_param("p", 1)
    MlflowClient().search_runs(["0"])[0].data.params["p"] = "changed"
    assert MlflowClient().search_runs(["0"])[0].data.params == {"p": "1"}


def test_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The memory has a limit."""
    monkeypatch.setattr(ended_runs, "MOST", 2)
    runs = EndedRuns()
    for name in "abc":
        runs.keep(tmp_path / name, (), name)  # type: ignore[arg-type]
    assert [runs.get(tmp_path / name, ()) for name in "abc"] == [None, "b", "c"]


def test_a_damaged_run_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that cannot be read is left out, which is reported."""
    for name in ("kept", "damaged"):
        with mlflow.start_run(run_name=name) as run:
            mlflow.log_metric("loss", 1.0)
    damaged = chiplog.init(project="default", id=run.info.run_id, dir=tmp_path / "runs", resume="must", sinks="none")
    facts.write(damaged, {"start_time": "not a number"})
    damaged.finish()
    assert [one.info.run_name for one in MlflowClient().search_runs(["0"])] == ["kept"]
    assert f"left run {damaged.dir} out of a search" in " ".join(capsys.readouterr().err.split())
