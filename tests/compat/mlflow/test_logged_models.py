"""Models that a run has made, and autologging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from mlflow import MlflowClient
from mlflow.entities import LoggedModelStatus
from mlflow.exceptions import MlflowException

pytestmark = pytest.mark.filterwarnings("ignore")


def described(uri: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What MLflow answers about models after the same calls."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    mlflow.tracking.fluent._active_experiment_id = None
    client, experiment = MlflowClient(), mlflow.set_experiment("models").experiment_id
    with mlflow.start_run() as run:
        model = client.create_logged_model(
            experiment, name="m", source_run_id=run.info.run_id, tags={"a": "b"}, params={"p": "1"}
        )
        mlflow.log_metric("acc", 0.5, step=1, model_id=model.model_id)
        mlflow.log_metric("acc", 0.75, step=2, model_id=model.model_id)
        client.set_logged_model_tags(model.model_id, {"c": "d"})
        client.delete_logged_model_tag(model.model_id, "a")
        client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    alone = client.create_logged_model(experiment, name="alone", model_type="agent")
    answers: list[Any] = []
    for one in (client.get_logged_model(model.model_id), client.get_logged_model(alone.model_id)):
        metrics = [(metric.key, metric.value, metric.step) for metric in one.metrics or []]
        answers.append(
            [
                one.name,
                str(one.status),
                one.tags,
                one.params,
                metrics,
                one.model_type,
                one.source_run_id in (run.info.run_id, None),
            ]
        )
    for query in ("name = 'm'", "metrics.acc > 0.6", "metrics.acc > 0.8", "params.p = '1'", ""):
        answers.append(sorted(one.name for one in client.search_logged_models([experiment], query)))
    client.delete_logged_model(alone.model_id)
    answers.append([one.name for one in client.search_logged_models([experiment])])
    with pytest.raises(MlflowException) as error:
        client.get_logged_model(alone.model_id)
    return [*answers, error.value.error_code]


def test_the_answers_are_those_of_mlflow(own_store: str, chiplog_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """About models with and without a run."""
    assert described(chiplog_store, monkeypatch) == described(own_store, monkeypatch)


@pytest.mark.parametrize("model_id", ["m-1", "../../x", "m-*"])
def test_a_model_that_is_not_there(model_id: str) -> None:
    with pytest.raises(MlflowException, match="not found"):
        MlflowClient().get_logged_model(model_id)


def fitted(uri: str, monkeypatch: pytest.MonkeyPatch, *, models: bool) -> mlflow.entities.Run:
    from sklearn.linear_model import LogisticRegression

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    mlflow.tracking.fluent._active_experiment_id = None
    data = np.random.default_rng(0).normal(size=(40, 3))
    mlflow.sklearn.autolog(log_models=models, silent=True)
    try:
        LogisticRegression().fit(data, data[:, 0] > 0)
    finally:
        mlflow.sklearn.autolog(disable=True, silent=True)
    run = mlflow.last_active_run()
    assert run is not None
    return run


def test_autologging_is_kept_whole(own_store: str, chiplog_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Params, metrics, tags, datasets and plots of scikit-learn, as MLflow's own store has them."""
    answers = []
    for uri in (own_store, chiplog_store):
        run = fitted(uri, monkeypatch, models=False)
        files = sorted(one.path for one in MlflowClient().list_artifacts(run.info.run_id))
        tags = {key: value for key, value in run.data.tags.items() if key != "mlflow.runName"}
        answers.append(
            [
                run.info.status,
                run.data.params,
                run.data.metrics,
                tags,
                [one.to_dictionary() for one in run.inputs.dataset_inputs],
                files,
            ]
        )
    assert answers[1] == answers[0] and len(answers[0][1]) > 5 and len(answers[0][2]) > 3


def test_a_model_is_loaded_again(tmp_path: Path) -> None:
    """From the files of the run that logged it."""
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(np.eye(2), [1.0, 2.0])
    with mlflow.start_run() as run:
        info = mlflow.sklearn.log_model(model, name="model", pip_requirements=[], serialization_format="cloudpickle")
    assert list(tmp_path.glob(f"runs/default/{run.info.run_id}/files/models/{info.model_id}/artifacts/MLmodel"))
    for uri in (f"runs:/{run.info.run_id}/model", info.model_uri):
        assert mlflow.sklearn.load_model(uri).predict(np.eye(2)).tolist() == model.predict(np.eye(2)).tolist()
    assert [one.model_id for one in mlflow.get_run(run.info.run_id).outputs.model_outputs] == [info.model_id]
