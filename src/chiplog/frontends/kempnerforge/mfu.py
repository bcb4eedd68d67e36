"""FLOPs per token and MFU, by the original's conventions.

Attention counts in full, even if half of it is masked.
"""

from __future__ import annotations

from typing import Any

from chiplog.core import messages
from chiplog.frontends.kempnerforge.logger import get_logger
from chiplog.metrics import flops, hardware
from chiplog.runtime.devices import accelerator as device_

NO_GPU = 1.0  # the original's value without a GPU
BY_CAPABILITY = ((9, 989.0), (8, 312.0), (0, 100.0))  # and for an unknown GPU

_logger = get_logger("metrics.mfu")


def estimate_model_flops_per_token(config: Any, seq_len: int | None = None) -> int:
    """6 per weight that a token uses, and 12 · layers · dim · length for attention."""
    return flops.count(config, seq_len=seq_len, causal=False).model


def compute_mfu(
    config: Any,
    tokens_per_sec: float,
    num_gpus: int = 1,
    gpu_peak_tflops: float | None = None,
    seq_len: int | None = None,
) -> float:
    """MFU as a fraction; `tokens_per_sec` is that of all GPUs together. 0.0 if the peak is unknown."""
    if gpu_peak_tflops is None:
        gpu_peak_tflops = get_gpu_peak_tflops()
    return flops.mfu(estimate_model_flops_per_token(config, seq_len), tokens_per_sec, gpu_peak_tflops, num_gpus) or 0.0


def get_gpu_peak_tflops(device: int | None = 0, *, compat: bool = False) -> float | None:
    """Dense bf16 TFLOP/s of this GPU; None without one, and, with a warning, for an unknown one.

    With `compat` it guesses like the original: 1.0 without a GPU, otherwise by compute capability. A GPU is identified
    once torch computes on it.
    """
    name = device_.name(device)
    peak = hardware.peak(name) if name else None
    if peak is not None:
        return peak
    if name is None:
        return NO_GPU if compat else None
    if not compat:
        if messages.first(f"kempnerforge no peak {name}"):
            _logger.warning(f"unknown GPU {name}: there is no MFU; pass gpu_peak_tflops, or compat=True for a guess")
        return None
    major = (device_.capability(device) or (0, 0))[0]
    guess = next(tflops for least, tflops in BY_CAPABILITY if major >= least)
    if messages.first(f"kempnerforge peak {name}"):
        _logger.warning(f"unknown GPU {name}: assuming {guess:.0f} TFLOPS by its compute capability {major}.x")
    return guess
