"""Runs of services: W&B's in this process, MLflow's from its store, and one that the script started itself."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from chiplog import Run, TrackerBackend
from chiplog.assembly.run_sinks import sink_state
from chiplog.sinks.shared.service_metrics import with_step

logger = logging.getLogger("chiplog.ezpz")

START = 60.0  # s that a service may take to start a run
CONFIG = 2.0  # s that W&B's run may take to have its config, once it has started

T = TypeVar("T")


def wandb_run(run: Run, seconds: float = START) -> Any:
    """W&B's run, once it has started; None if W&B cannot start one, and on other ranks."""
    if run.inert:
        return None
    native = _wait(run, "wandb", lambda: getattr(run.sink("wandb"), "native", None), seconds)
    deadline = time.monotonic() + CONFIG
    while native is not None and not run.identity.config.keys() <= set(native.config.keys()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return native


def mlflow_run(run: Run) -> Any:
    """MLflow's run, read from its store; None if there is none."""

    def saved_id() -> object:
        return sink_state(run, "mlflow").get("run")

    run_id = saved_id() if run.inert else _wait(run, "mlflow", saved_id)
    if run_id is None:
        return None
    try:
        import mlflow

        return mlflow.tracking.MlflowClient(mlflow_uri(run.identity.cwd)).get_run(run_id)
    except Exception as error:
        logger.warning("cannot read the run %s from MLflow: %s: %s", run_id, type(error).__name__, error)
        return None


def mlflow_uri(cwd: str) -> str:
    """The tracking URI of MLflow, signed in with the user's credentials."""
    from chiplog.sinks.mlflow import login  # needs mlflow

    return login.sign_in(cwd, os.environ)


def _wait(run: Run, name: str, read: Callable[[], T | None], seconds: float = START) -> T | None:
    """Poll until a service has started its run; None if it fails or takes too long."""
    deadline = time.monotonic() + seconds
    while (value := read()) is None:
        if run.health()["sinks"].get(name, {}).get("errors"):
            return None  # the courier has reported why
        if time.monotonic() > deadline:
            logger.warning("%s has not started a run within %g s", name, seconds)
            return None
        time.sleep(0.02)
    return value


class ActiveWandb(TrackerBackend):
    """A run that the script started with `wandb.init`: it gets every row, and the script finishes it."""

    name = "wandb"

    def __init__(self, run: Any) -> None:
        self.run = run

    def log(self, metrics: Mapping[str, object], step: int | float | None = None, commit: bool = True) -> None:
        self.run.log(dict(metrics) if step is None else with_step(metrics, step), commit=commit)

    def log_config(self, config: Mapping[str, object]) -> None:
        self.run.config.update(dict(config), allow_val_change=True)

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[object]]) -> None:
        import wandb

        self.run.log({key: wandb.Table(columns=list(columns), data=[list(row) for row in data])})

    def log_image(self, key: str, image_path: str, caption: str | None = None) -> None:
        import wandb

        self.run.log({key: wandb.Image(image_path, caption=caption)})

    def watch(self, model: object, **options: object) -> Any:
        return self.run.watch(model, **options)

    def finish(self) -> None:
        pass
