"""The tests of MLflow's store: a directory of runs, and a store of MLflow's own to compare with."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

from chiplog.compat.mlflow import entry_points


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of MLflow, which takes seconds to make."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    with contextlib.chdir(path.parent):  # where it keeps artifacts
        MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def own_store(empty_database: Path, tmp_path: Path) -> str:
    """The URI of a database of MLflow."""
    return f"sqlite:///{shutil.copy(empty_database, tmp_path / 'mlflow.db')}"


@pytest.fixture(autouse=True)
def chiplog_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """MLflow with its environment variable set to a directory of runs, and nothing left from other tests."""
    uri = f"chiplog:///{tmp_path}/runs"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    _forget()
    yield uri
    while mlflow.active_run():
        mlflow.end_run()
    _forget()


def _forget() -> None:
    mlflow.tracking._tracking_service.utils._register("chiplog", entry_points.tracking_store)
    mlflow.tracking._tracking_service.utils._tracking_uri = None
    mlflow.tracking.fluent._active_experiment_id = None
