"""Small helpers: the summary line, device memory, setting up torch and services."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

from chiplog.frontends.ezpz.summary import MEMORY, format_compact_summary, format_memory_summary
from chiplog.runtime import ranks

__all__ = [
    "format_compact_summary",
    "format_memory_summary",
    "get_memory_metrics",
    "get_rank",
    "get_world_size",
    "setup_mlflow",
    "setup_torch",
    "setup_wandb",
]

logger = logging.getLogger("chiplog.ezpz")

GIB = 1 << 30
PROJECTS = ("WB_PROJECT", "WANDB_PROJECT", "WB_PROJECT_NAME")


def is_on(text: str | None) -> bool:
    """Whether a variable of the environment switches something on; "0" and the like do not."""
    return (text or "").strip().lower() not in ("", "0", "false", "no", "off")


def get_rank() -> int:
    return ranks.detect(os.environ).rank


def get_world_size() -> int:
    return ranks.detect(os.environ).world


def get_memory_metrics(device: Any = None, *, reset_peak: bool = True, prefix: str = "") -> dict[str, float]:
    """Device memory in GiB: in use, at most, taken, taken at most; `{}` on a CPU, on MPS and with EZPZ_TRACK_MEMORY=0.

    The peaks begin anew with every call, unless `reset_peak=False`.
    """
    backend = None if os.environ.get("EZPZ_TRACK_MEMORY", "1").strip() == "0" else _backend(device)
    if backend is None:
        return {}
    which = device if not isinstance(device, str) or ":" in device else None
    questions = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    try:
        found = [getattr(backend, question)(which) / GIB for question in questions]
        if reset_peak:
            backend.reset_peak_memory_stats(which)
    except Exception as error:  # drivers fail in many ways, and this is only a measurement
        logger.debug("device memory is not known: %s", error)
        return {}
    return {f"{prefix}{name}": value for name, value in zip(MEMORY, found, strict=True)}


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

    mine = ranks.detect(os.environ)
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
            project=project_name or _project(),
            entity=entity,
            config=dict(config or {}),
            mode=mode,
            **options,
        )
    except Exception as error:
        logger.warning("W&B does not begin: %s: %s", type(error).__name__, error)
        return None


def setup_mlflow(project_name: str | None = None, config: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """Begin a run of MLflow on rank 0; None elsewhere, and where MLflow cannot."""
    if get_rank() != 0:
        return None
    try:
        import mlflow

        mlflow.set_experiment(project_name or os.environ.get("MLFLOW_EXPERIMENT_NAME") or _project())
        run = mlflow.start_run(**options)
        if config:
            mlflow.log_params({f"config.{key}": value for key, value in _flat(config).items()})
    except Exception as error:
        logger.warning("MLflow does not begin: %s: %s", type(error).__name__, error)
        return None
    return run


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


def _project() -> str:
    found = next((os.environ[name] for name in PROJECTS if os.environ.get(name)), None)
    if found:
        return found
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not file:
        return "ezpz"
    parent, stem = os.path.split(os.path.abspath(file))  # noqa: PTH100
    return f"ezpz.{os.path.basename(parent)}.{os.path.splitext(stem)[0]}"  # noqa: PTH119, PTH122


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
