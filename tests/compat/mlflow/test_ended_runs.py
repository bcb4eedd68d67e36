"""Runs that a search has read before."""

from __future__ import annotations

import mlflow
from mlflow import MlflowClient

from chiplog.compat.mlflow import ended_runs
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


def test_the_oldest_is_forgotten(monkeypatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """The memory has a limit."""
    monkeypatch.setattr(ended_runs, "MOST", 2)
    runs = EndedRuns()
    for name in "abc":
        runs.keep(tmp_path / name, (), name)  # type: ignore[arg-type]
    assert [runs.get(tmp_path / name, ()) for name in "abc"] == [None, "b", "c"]
