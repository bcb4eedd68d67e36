"""Runs as MLflow sees them, and as chiplog does."""

from __future__ import annotations

from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

import chiplog
from chiplog.compat.mlflow import run_entities

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_run_that_mlflow_has_not_written_is_there(tmp_path: Path) -> None:
    """With its config, all of its series, its words and its end."""
    config = {"model": {"depth": 2, "wide": {}}, "list": [1], "none": None}
    with chiplog.init(
        project="own", name="native", config=config, tags=["a", "k=v"], dir=tmp_path / "runs", sinks="none"
    ) as run:
        run.log({"loss": 1.5}, step=3)
        run.eval({"acc": 0.5}, step=3)
    (read,) = mlflow.search_runs(experiment_names=["own"], output_format="list")
    assert (read.info.run_id, read.info.run_name, read.info.status) == (run.id, "native", "FINISHED")
    assert read.data.params == {"model.depth": "2", "model.wide": "{}", "list": "[1]", "none": "None"}
    assert read.data.metrics == {"loss": 1.5, "eval/acc": 0.5} and read.data.tags == {
        "mlflow.runName": "native",
        "a": "",
        "k": "v",
    }
    assert read.info.start_time <= read.info.end_time and read.info.lifecycle_stage == "active"
    MlflowClient().set_tag(run.id, "seen", "yes")
    MlflowClient().log_param(run.id, "model.depth", 2)
    with pytest.raises(mlflow.MlflowException, match="Changing param values"):
        MlflowClient().log_param(run.id, "model.depth", 3)
    assert chiplog.read(run.dir).config == {**config, "model.depth": 2}


def test_params_and_tags_are_those_of_chiplog(tmp_path: Path) -> None:
    """Params have types in the config, tags are words, the name is the run's."""
    with mlflow.start_run(run_name="named") as active:
        mlflow.log_params({"lr": 1e-3, "layers": 12, "flag": True, "text": "1_000", "password": "hunter2hunter2"})
        mlflow.set_tags({"team": "nlp", "note": "x" * 500})
        mlflow.set_tag("team", "vision")
    stored = chiplog.read(tmp_path / "runs" / "default" / active.info.run_id)
    assert stored.config == {"lr": 1e-3, "layers": 12, "flag": True, "text": "1_000", "password": "[redacted]"}
    assert stored.tags == ("team=vision",) and stored.name == "named" and stored.project == "default"
    assert mlflow.get_run(active.info.run_id).data.params["text"] == "1_000"


def test_states_of_chiplog_have_a_status() -> None:
    """Also those that MLflow has no word for."""
    for state, status in {
        "finished": "FINISHED",
        "failed": "FAILED",
        "interrupted": "KILLED",
        "pruned": "FAILED",
    }.items():
        run = chiplog.init(project="states", name=state, sinks="none")
        run.finish(state=state)
        assert run_entities.status_of(chiplog.read(run.dir), run_entities.fact_table.RunFacts()) == status
