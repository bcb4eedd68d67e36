"""The own objects of services: W&B's run in this process, MLflow's as its store has it, one that was there before."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chiplog.core.run import Run
from chiplog.sinks.adapters.backends import TrackerBackend

logger = logging.getLogger("chiplog.ezpz")

START = 60.0  # s that a service may take to begin a run
CONFIG = 2.0  # s that W&B's run may take to have its config, once it is there


def wandb_run(run: Run, seconds: float = START) -> Any:
    """W&B's run, as soon as it is there; None where W&B cannot begin one, and on another rank."""
    if run.inert:
        return None
    native = _await(run, "wandb", lambda: getattr(run.sink("wandb"), "native", None), seconds)
    until = time.monotonic() + CONFIG
    while native is not None and not set(run.identity.config) <= set(native.config.keys()) and time.monotonic() < until:
        time.sleep(0.01)
    return native


def mlflow_run(run: Run) -> Any:
    """MLflow's run, read from its store; None where there is none."""
    from chiplog.store.journal import cursors

    path = cursors.cursor_path(run.dir, "mlflow")

    def known() -> Any:
        try:
            return cursors.load(path).state.get("run")
        except (OSError, ValueError):
            return None

    run_id = known() if run.inert else _await(run, "mlflow", known)
    if run_id is None:
        return None
    try:
        import mlflow

        from chiplog.sinks.mlflow import login

        uri = login.sign_in(run.identity.cwd, os.environ)
        return mlflow.tracking.MlflowClient(uri).get_run(run_id)
    except Exception as error:
        logger.warning("MLflow does not show its run %s: %s: %s", run_id, type(error).__name__, error)
        return None


def _await(run: Run, name: str, look: Callable[[], Any], seconds: float = START) -> Any:
    until = time.monotonic() + seconds
    while (found := look()) is None:
        if run.health()["sinks"].get(name, {}).get("errors"):
            return None  # the courier has said why
        if time.monotonic() > until:
            logger.warning("%s has not begun a run within %g s", name, seconds)
            return None
        time.sleep(0.02)
    return found


class ActiveWandb(TrackerBackend):
    """A run that somebody began with `wandb.init`: it gets every row, and stays theirs to finish."""

    name = "wandb"

    def __init__(self, run: Any) -> None:
        self.run = run

    def log(self, metrics: Mapping[str, Any], step: int | float | None = None, commit: bool = True) -> None:
        self.run.log({**metrics, **({} if step is None else {"step": step})}, commit=commit)

    def log_config(self, config: Mapping[str, Any]) -> None:
        self.run.config.update(dict(config), allow_val_change=True)

    def log_table(self, key: str, columns: Sequence[str], data: Sequence[Sequence[Any]]) -> None:
        import wandb

        self.run.log({key: wandb.Table(columns=list(columns), data=[list(row) for row in data])})

    def log_image(self, key: str, image_path: str, caption: str | None = None) -> None:
        import wandb

        self.run.log({key: wandb.Image(image_path, caption=caption)})

    def watch(self, model: Any, **options: Any) -> Any:
        return self.run.watch(model, **options)

    def finish(self) -> None:
        pass
