"""The floating point operations of a training step: counted by the compiler, or estimated from the parameters."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chiplog.core import messages
from chiplog.runtime.devices.flop_counter import count_jax

PER_PARAMETER = 6  # operations per parameter and token: 2 forward, 4 backward
DEEPEST = 4  # containers in containers


def measure_tflops_per_step(
    train_step_fn: Callable[..., object], model: object, optimizer: object, train_example: object
) -> float | None:
    """Count the TFLOPs of a jitted `train_step_fn(model, optimizer, train_example)`; None if that is impossible."""
    if not hasattr(train_step_fn, "lower"):
        messages.once("tunix tflops jit", "TFLOPs cannot be measured: train_step_fn is not a jitted function")
        return None
    try:
        flops = count_jax(train_step_fn, model, optimizer, train_example)
    except Exception as error:
        messages.once(f"tunix tflops {error}", f"TFLOPs cannot be measured: {error!r:.200}")
        return None
    return None if flops is None else flops / 1e12


def approximate_tflops_per_second(total_model_params: int, global_batch_size: int, step_time_delta: float) -> float:
    """Return 6 × parameters × batch / seconds, in TFLOPs; 0 without parameters or time."""
    if total_model_params <= 0 or step_time_delta <= 0:
        messages.once(
            "tunix tflops nothing",
            f"TFLOPs per second are 0: total_model_params = {total_model_params}, step_time_delta = {step_time_delta}",
        )
        return 0.0
    return PER_PARAMETER * total_model_params * global_batch_size / step_time_delta / 1e12


def count_params(model: object) -> int:
    """Return the number of parameters of a torch or flax module, or of arrays in containers; 0 if there are none."""
    if callable(parameters := getattr(model, "parameters", None)):
        return sum(weight.numel() for weight in parameters())
    nnx = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(model, nnx.Module):
        model = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    return sum(math.prod(array.shape) for array in _arrays(model))


def count_tokens(batch: object) -> int:
    """Return the size of the largest array of ids in a batch; without ids, the number of its examples."""
    arrays = list(_arrays(batch))
    ids = [math.prod(one.shape) for one in arrays if len(one.shape) > 1 and "int" in str(one.dtype)]
    return max(ids, default=0) or max((one.shape[0] for one in arrays if one.shape), default=0)


def _arrays(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the arrays in mappings, lists and attributes of plain objects; reads nothing from a device."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        yield value
    elif isinstance(value, (str, bytes)) or depth > DEEPEST:
        return
    else:
        inside = value.values() if isinstance(value, Mapping) else getattr(value, "__dict__", {}).values()
        for one in value if isinstance(value, (list, tuple)) else inside:
            yield from _arrays(one, depth + 1)
