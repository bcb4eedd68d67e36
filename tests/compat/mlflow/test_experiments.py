"""Experiments, which are projects."""

from __future__ import annotations

from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

import chiplog

pytestmark = pytest.mark.filterwarnings("ignore")


def test_an_experiment_is_a_project(tmp_path: Path) -> None:
    """Under the name that MLflow was given, which may be any text."""
    mlflow.set_experiment("My Team/größe 1")
    with mlflow.start_run():
        mlflow.log_metric("x", 1.0)
    (stored,) = chiplog.runs(tmp_path / "runs")
    assert stored.project == "My Team/größe 1"
    assert [one.name for one in MlflowClient().search_experiments()] == ["My Team/größe 1", "Default"]


def test_a_project_is_an_experiment() -> None:
    """`default` is MLflow's `Default`, under both names."""
    for project in ("default", "own"):
        chiplog.init(project=project, sinks="none").finish()
    client = MlflowClient()
    assert {one.name: one.experiment_id for one in client.search_experiments()} == {"Default": "0", "own": "own"}
    assert (
        client.get_experiment_by_name("default").experiment_id
        == client.get_experiment_by_name("Default").experiment_id
        == "0"
    )
    assert len(mlflow.search_runs(search_all_experiments=True)) == 2


def test_an_empty_directory_has_one_experiment(tmp_path: Path) -> None:
    """Asking creates nothing."""
    assert [one.name for one in MlflowClient().search_experiments()] == ["Default"]
    assert len(mlflow.search_runs()) == 0 and not (tmp_path / "runs").exists()


def test_the_id_of_the_default_is_no_name() -> None:
    with pytest.raises(MlflowException, match="which is the id of 'Default'"):
        MlflowClient().create_experiment("0")


def test_artifacts_may_go_elsewhere(tmp_path: Path) -> None:
    """To the location of the experiment, with the run's id."""
    experiment = MlflowClient().create_experiment("elsewhere", artifact_location=(tmp_path / "store").as_uri())
    with mlflow.start_run(experiment_id=experiment) as run:
        mlflow.log_text("hello", "a.txt")
    assert (tmp_path / "store" / run.info.run_id / "artifacts" / "a.txt").read_text() == "hello"


def test_a_renamed_experiment_keeps_its_project(tmp_path: Path) -> None:
    """Runs before and after are together."""
    client = MlflowClient()
    experiment = client.create_experiment("old")
    client.create_run(experiment)
    client.rename_experiment(experiment, "new")
    client.create_run(experiment)
    assert len(mlflow.search_runs(experiment_names=["new"])) == 2
    assert {stored.project for stored in chiplog.runs(tmp_path / "runs")} == {"old"}
