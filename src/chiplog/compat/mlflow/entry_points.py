"""What MLflow's entry points call for a URI such as `chiplog:///runs`.

MLflow imports this module whenever it is imported itself, so it imports nothing until it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def tracking_store(store_uri: str, artifact_uri: str | None = None) -> Any:
    """The store of the runs in the directory that the URI names."""
    return import_module("chiplog.compat.mlflow.store").ChiplogStore(store_uri, artifact_uri)


def model_registry(store_uri: str, tracking_uri: str | None = None) -> Any:  # noqa: ARG001  MLflow passes both by name
    """Raise, because there is no registry of models."""
    raise import_module("chiplog.compat.mlflow.unsupported").refusal(
        "the model registry",
        f"{store_uri!r} keeps runs; set another place for models, such as mlflow.set_registry_uri('sqlite:///models.db')",
    )
