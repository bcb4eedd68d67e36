"""Functions other than the history: the summary line, device memory, setting up torch and services."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import chiplog
from chiplog.core.values.flatten import flatten
from chiplog.frontends.ezpz import messages
from chiplog.frontends.ezpz.backends.service_runs import mlflow_uri
from chiplog.frontends.ezpz.device_memory import (
    get_current_memory_allocated,
    get_current_memory_reserved,
    get_max_memory_allocated,
    get_max_memory_reserved,
    get_memory_metrics,
    reset_peak_memory_stats,
)
from chiplog.frontends.ezpz.environment import EXPERIMENT_VARIABLES, default_project, is_on
from chiplog.frontends.ezpz.summary_line import format_compact_summary, format_memory_summary, is_memory_metric
from chiplog.runtime.ranks import detect
from chiplog.sinks.shared import dotenv

__all__ = [
    "format_compact_summary",
    "format_memory_summary",
    "get_current_memory_allocated",
    "get_current_memory_reserved",
    "get_max_memory_allocated",
    "get_max_memory_reserved",
    "get_memory_metrics",
    "get_rank",
    "get_timestamp",
    "get_world_size",
    "is_memory_metric",
    "is_memory_metric_key",
    "reset_peak_memory_stats",
    "setup_mlflow",
    "setup_torch",
    "setup_wandb",
    "timeitlogit",
]

logger = logging.getLogger("chiplog.ezpz")

P = ParamSpec("P")
T = TypeVar("T")


is_memory_metric_key = is_memory_metric


def get_rank() -> int:
    return detect.detect(os.environ).rank


def get_world_size() -> int:
    return detect.detect(os.environ).world


def setup_torch(backend: str | None = None, seed: int | None = None, **options: Any) -> int:
    """Join the launcher's process group, if there are several processes, and return the rank."""
    import torch

    place = detect.detect(os.environ)
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    if place.world > 1 and torch.distributed.is_available() and not torch.distributed.is_initialized():
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29500")
        torch.distributed.init_process_group(
            backend or ("nccl" if cuda else "gloo"), rank=place.rank, world_size=place.world, **options
        )
    if seed is not None:
        torch.manual_seed(seed + place.rank)
    return place.rank


def setup_wandb(
    project_name: str | None = None,
    entity: str | None = None,
    config: Mapping[str, Any] | None = None,
    mode: str | None = None,
    **options: Any,
) -> Any:
    """Start a run of W&B on rank 0; None on other ranks, and if W&B is disabled. Prefer `History(backends="wandb")`."""
    mode = "disabled" if is_on(os.environ.get("WANDB_DISABLED")) else mode or os.environ.get("WANDB_MODE") or "online"
    if get_rank() != 0 or mode == "disabled":
        return None
    try:
        import wandb

        return wandb.init(
            project=project_name or default_project(os.environ),
            entity=entity,
            config=dict(config or {}),
            mode=mode,
            **options,
        )
    except Exception as error:
        logger.warning("cannot start a run of W&B: %s: %s", type(error).__name__, error)
        return None


def setup_mlflow(
    project_name: str | None = None,
    config: Mapping[str, Any] | None = None,
    outdir: str | Path | None = None,  # noqa: ARG001  artifacts go where MLflow keeps them
    **options: Any,
) -> Any:
    """Start a run of MLflow on rank 0; None on other ranks, and if MLflow fails.

    Credentials may be in `~/.amsc.env` and the project's `.env`.
    """
    if get_rank() != 0:
        return None
    try:
        import mlflow

        cwd = str(Path.cwd())
        mlflow.set_tracking_uri(mlflow_uri(cwd))
        mlflow.set_experiment(project_name or default_project(dotenv.load(cwd, os.environ), EXPERIMENT_VARIABLES))
        run = mlflow.start_run(**options)
        if config:
            mlflow.log_params(
                {f"config.{key}": value for key, value in flatten(config, ".") if not isinstance(value, Mapping)}
            )
    except Exception as error:
        logger.warning("cannot start a run of MLflow: %s: %s", type(error).__name__, error)
        return None
    return run


def get_timestamp(fmt: str = "%Y-%m-%d-%H%M%S") -> str:
    """The local time as part of a name."""
    return time.strftime(fmt)


def timeitlogit(
    rank: int | None = None, record: bool = True, verbose: bool = False, prefix: str | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Time a function's calls: recorded in the run as `timeit/<name>`, and with `verbose` reported on rank 0."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        name = function.__qualname__

        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds = time.perf_counter() - start
                if record and (run := chiplog.run) is not None:
                    run.event(prefix or "timeit", **{name: seconds})
                if verbose and (get_rank() if rank is None else rank) == 0:
                    messages.info("%s took %.4f s", name, seconds)

        return timed

    return decorate
