"""FLOPs of a model, and MFU: counted by the engine, under ezpz's names."""

from __future__ import annotations

import logging
import warnings
from functools import cache
from typing import Any

from chiplog import ChiplogError
from chiplog.metrics import hardware
from chiplog.runtime.devices import accelerator as device
from chiplog.runtime.devices import flop_counter

__all__ = [
    "compute_mfu",
    "estimate_model_flops",
    "estimate_model_flops_fake",
    "get_peak_flops",
    "try_estimate",
    "try_estimate_fake",
]

logger = logging.getLogger("chiplog.ezpz")


def try_estimate(model: Any, input_shape: tuple[int, ...], *, backward: bool = True, **options: Any) -> int:
    """FLOPs of one batch, forward and backward; 0 if they cannot be determined.

    The model, its gradients and buffers, and all random generators are left unchanged.
    """
    try:
        return estimate_model_flops(model, input_shape, backward=backward, **options)
    except Exception as error:
        logger.warning("cannot determine the FLOPs of %s: %s", type(model).__name__, error)
        return 0


def estimate_model_flops(
    model: Any, input_shape: tuple[int, ...], *, device: object = None, backward: bool = True
) -> int:
    """FLOPs of one batch: counted, or else 6 (2 without a backward pass) per weight and token."""
    inputs = _inputs(model, input_shape, device)
    try:
        counted = flop_counter.count_torch(model, inputs, backward=backward).total
    except ChiplogError as error:
        logger.info("%s; estimating them from its weights", error)
        counted = 0
    if counted:
        return counted
    weights: int = sum(weight.numel() for weight in model.parameters())
    tokens = 1
    for length in input_shape[-1:] if _vocabulary(model) is not None else input_shape[1:]:
        tokens *= length
    return (6 if backward else 2) * weights * input_shape[0] * tokens


def try_estimate_fake(model: Any, input_shape: tuple[int, ...], *, backward: bool = True, **options: Any) -> int:
    """Like `try_estimate`, without computing anything or using memory; 0 for a model that needs real numbers."""
    try:
        return estimate_model_flops_fake(model, input_shape, backward=backward, **options)
    except Exception as error:
        logger.warning("cannot determine the FLOPs of %s: %s", type(model).__name__, error)
        return 0


def estimate_model_flops_fake(
    model: Any, input_shape: tuple[int, ...], *, device: object = None, backward: bool = True
) -> int:
    """FLOPs of one batch, counted without computing anything; 0 if that fails."""
    try:
        return flop_counter.count_torch(model, _inputs(model, input_shape, device), backward=backward, meta=True).total
    except ChiplogError as error:
        logger.warning("%s", error)
        return 0


def compute_mfu(
    model_flops: float, step_duration: float, *, device_name: str | None = None, peak_flops: float | None = None
) -> float:
    """MFU in percent: FLOPs / seconds / peak · 100; 0.0 if the peak is unknown."""
    peak = peak_flops if peak_flops is not None else get_peak_flops(device_name)
    if not peak or peak <= 0 or model_flops <= 0 or step_duration <= 0:
        return 0.0
    return model_flops / step_duration / peak * 100


def get_peak_flops(device_name: str | None = None) -> float | None:
    """The dense bf16 peak of a device in FLOP/s; None on a CPU, and, with one warning, for an unknown device."""
    name = device_name or device.name()
    if not name or name.lower() == "cpu":
        return None
    peak = hardware.peak(name)
    if peak is None:
        _warn_unknown(name)
        return None
    return peak * 1e12


@cache
def _warn_unknown(name: str) -> None:
    warnings.warn(f"the peak of {name!r} is unknown; pass compute_mfu(peak_flops=...)", UserWarning, stacklevel=4)


def _inputs(model: Any, shape: tuple[int, ...], device: Any) -> Any:
    """An input of this shape: token ids if the model has an embedding, else numbers."""
    import torch

    weight = next(model.parameters(), None)
    where = device if device is not None else getattr(weight, "device", None)
    if (size := _vocabulary(model)) is not None:
        return torch.zeros(shape, dtype=torch.long, device=where) % size
    return torch.zeros(shape, dtype=getattr(weight, "dtype", torch.float32), device=where)


def _vocabulary(model: Any) -> int | None:
    import torch

    embedding = next((one for one in model.modules() if isinstance(one, torch.nn.Embedding)), None)
    return None if embedding is None else embedding.num_embeddings
