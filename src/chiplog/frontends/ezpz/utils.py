"""Small helpers: the summary line, device memory, setting up torch and services."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from chiplog.core import run as engine
from chiplog.core.values.flatten import flatten
from chiplog.frontends.ezpz.messages import say
from chiplog.frontends.ezpz.project import EXPERIMENTS, default_project
from chiplog.frontends.ezpz.summary_line import MEMORY, format_compact_summary, format_memory_summary, is_memory
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

GIB = 1 << 30
QUESTIONS = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")

P = ParamSpec("P")
T = TypeVar("T")


def is_on(text: str | None) -> bool:
    """Whether a variable of the environment switches something on; "0" and the like do not."""
    return (text or "").strip().lower() not in ("", "0", "false", "no", "off")


def get_rank() -> int:
    return detect.detect(os.environ).rank


def get_world_size() -> int:
    return detect.detect(os.environ).world


def get_memory_metrics(device: Any = None, *, reset_peak: bool = True, prefix: str = "") -> dict[str, float]:
    """Device memory in GiB: in use, at most, taken, taken at most; `{}` on a CPU, on MPS and with EZPZ_TRACK_MEMORY=0.

    The peaks begin anew with every call, unless `reset_peak=False`.
    """
    backend = None if os.environ.get("EZPZ_TRACK_MEMORY", "1").strip() == "0" else _backend(device)
    if backend is None:
        return {}
    which = device if not isinstance(device, str) or ":" in device else None
    try:
        found = [getattr(backend, question)(which) / GIB for question in QUESTIONS]
        if reset_peak:
            backend.reset_peak_memory_stats(which)
    except Exception as error:  # drivers fail in many ways, and this is only a measurement
        logger.debug("device memory is not known: %s", error)
        return {}
    return {f"{prefix}{name}": value for name, value in zip(MEMORY, found, strict=True)}


def get_current_memory_allocated(device: Any = None) -> float:
    """Bytes in use on a device; 0 where it does not tell."""
    return _ask(device, QUESTIONS[0])


def get_max_memory_allocated(device: Any = None) -> float:
    """Bytes that were in use at most."""
    return _ask(device, QUESTIONS[1])


def get_current_memory_reserved(device: Any = None) -> float:
    """Bytes that the allocator has taken."""
    return _ask(device, QUESTIONS[2])


def get_max_memory_reserved(device: Any = None) -> float:
    """Bytes that it had taken at most."""
    return _ask(device, QUESTIONS[3])


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks of a device begin from here."""
    _ask(device, "reset_peak_memory_stats")


def is_memory_metric(key: str) -> bool:
    """Whether this is one of the four names of device memory, in any group, or a statistic of it."""
    return is_memory(key)


is_memory_metric_key = is_memory_metric


def device_total(device: Any = None) -> float | None:
    """All memory of the device this process computes on, in GiB; None where nobody knows."""
    try:
        backend = _backend(device)
        if backend is None:
            return None
        total: int = backend.get_device_properties(backend.current_device()).total_memory
        return total / GIB
    except Exception:  # as above
        return None


def setup_torch(backend: str | None = None, seed: int | None = None, **options: Any) -> int:
    """Join the process group that the launcher speaks of, if there are several processes; returns the rank."""
    import torch

    mine = detect.detect(os.environ)
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    if mine.world > 1 and torch.distributed.is_available() and not torch.distributed.is_initialized():
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29500")
        torch.distributed.init_process_group(
            backend or ("nccl" if cuda else "gloo"), rank=mine.rank, world_size=mine.world, **options
        )
    if seed is not None:
        torch.manual_seed(seed + mine.rank)
    return mine.rank


def setup_wandb(
    project_name: str | None = None,
    entity: str | None = None,
    config: Mapping[str, Any] | None = None,
    mode: str | None = None,
    **options: Any,
) -> Any:
    """Begin a run of W&B on rank 0; None elsewhere, and where W&B is disabled. Newer: `History(backends="wandb")`."""
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
        logger.warning("W&B does not begin: %s: %s", type(error).__name__, error)
        return None


def setup_mlflow(
    project_name: str | None = None,
    config: Mapping[str, Any] | None = None,
    outdir: str | Path | None = None,  # noqa: ARG001  artifacts go where MLflow keeps them
    **options: Any,
) -> Any:
    """Begin a run of MLflow on rank 0; None elsewhere, and where MLflow cannot.

    Credentials may be in `~/.amsc.env` and the project's `.env`.
    """
    if get_rank() != 0:
        return None
    try:
        import mlflow

        from chiplog.sinks.mlflow import login

        cwd = str(Path.cwd())
        known = dotenv.known(cwd, os.environ)
        mlflow.set_tracking_uri(login.sign_in(cwd, os.environ))
        mlflow.set_experiment(project_name or default_project(known, EXPERIMENTS))
        run = mlflow.start_run(**options)
        if config:
            mlflow.log_params(
                {f"config.{key}": value for key, value in flatten(config, ".") if not isinstance(value, Mapping)}
            )
    except Exception as error:
        logger.warning("MLflow does not begin: %s: %s", type(error).__name__, error)
        return None
    return run


def get_timestamp(fmt: str = "%Y-%m-%d-%H%M%S") -> str:
    """The local time as part of a name."""
    return time.strftime(fmt)


def timeitlogit(
    rank: int | None = None, record: bool = True, verbose: bool = False, prefix: str | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Time a function's calls: recorded in the run as `timeit/<name>`, and with `verbose` said on rank 0."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        name = function.__qualname__

        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.perf_counter() - began
                if record and (run := engine.current) is not None:
                    run.event(prefix or "timeit", **{name: took})
                if verbose and (get_rank() if rank is None else rank) == 0:
                    say("%s took %.4f s", name, took)

        return timed

    return decorate


def _ask(device: Any, question: str) -> float:
    """What torch says of a device's memory; 0 where there is none, or its driver fails."""
    try:
        if (backend := _backend(device)) is not None:
            return float(
                getattr(backend, question)(device if not isinstance(device, str) or ":" in device else None) or 0
            )
    except Exception as error:  # drivers fail in many ways, and this is only a measurement
        logger.debug("device memory is not known: %s", error)
    return 0.0


def _backend(device: Any) -> Any:
    """torch.cuda or torch.xpu, where torch is loaded and has such a device; None on a CPU and on MPS."""
    torch = sys.modules.get("torch")
    kind = getattr(device, "type", device)
    kind = kind.partition(":")[0] if isinstance(kind, str) else ""
    if torch is None or kind not in ("", "cuda", "xpu"):
        return None
    for name in ("cuda", "xpu"):
        backend = getattr(torch, name, None)
        if kind in ("", name) and backend is not None and backend.is_available():
            return backend
    return None
