"""What MLflow's entry points load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mlflow
import pytest
from mlflow.exceptions import MlflowException

import chiplog
from chiplog.compat.mlflow import entry_points

SCRIPT = """
import mlflow
mlflow.set_experiment("unchanged")
with mlflow.start_run(run_name="script"):
    mlflow.log_param("lr", 0.1)
    mlflow.log_metric("loss", 0.5, step=7)
"""


def test_loading_imports_nothing_heavy() -> None:
    """MLflow does it at every import."""
    code = (
        "import sys, chiplog.compat.mlflow.entry_points\n"
        "print([name for name in ('mlflow', 'numpy', 'pyarrow', 'chiplog.assembly', 'chiplog.store') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_variable_is_all_that_a_script_needs(chiplog_store: str, tmp_path: Path) -> None:
    """MLflow finds the store by the installed entry point."""
    Path("script.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "script.py"], check=True, capture_output=True)
    stored = chiplog.read("unchanged/script", dir=tmp_path / "runs")
    assert (
        stored.config == {"lr": 0.1}
        and stored.series("loss").exact == [0.5]
        and stored.series("loss").steps.tolist() == [7]
    )
    assert stored.state == "finished"


def test_a_uri_without_a_path_is_the_directory_of_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three slashes start a relative path, four an absolute one."""
    monkeypatch.setenv("CHIPLOG_DIR", str(tmp_path / "own"))
    for uri, root in {
        "chiplog:": tmp_path / "own", "chiplog:///runs": tmp_path / "runs", "chiplog:////a/b%20c": Path("/a/b c"),
        "chiplog:///runs/": tmp_path / "runs", "chiplog://runs": tmp_path / "runs",
    }.items():  # fmt: skip
        assert entry_points.tracking_store(uri).root == root


def test_models_need_a_registry_of_another_kind() -> None:
    """The error names the way out."""
    with pytest.raises(MlflowException, match=r"does not keep the model registry.*set_registry_uri"):
        entry_points.model_registry("chiplog:///runs", "chiplog:///runs")
    mlflow.set_registry_uri("sqlite:///models.db")
    try:
        assert mlflow.get_registry_uri() == "sqlite:///models.db"
    finally:
        mlflow.set_registry_uri("")
