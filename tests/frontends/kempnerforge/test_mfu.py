"""FLOPs per token and MFU."""

from __future__ import annotations

import pytest

from chiplog.frontends.kempnerforge.mfu import compute_mfu, estimate_model_flops_per_token, get_gpu_peak_tflops
from tests.frontends.kempnerforge.job import LLAMA


def test_mfu_is_a_fraction_of_all_peaks() -> None:
    """Tokens per second of all GPUs, over the peak of all GPUs."""
    flops = estimate_model_flops_per_token(LLAMA, 2048)
    share = compute_mfu(LLAMA, 1000.0, num_gpus=2, gpu_peak_tflops=100.0, seq_len=2048)
    assert share == pytest.approx(flops * 1000.0 / 200e12)


def test_without_a_gpu_there_is_no_peak() -> None:
    """Unless it guesses like the original."""
    assert get_gpu_peak_tflops() is None and get_gpu_peak_tflops(compat=True) == 1.0
    assert compute_mfu(LLAMA, 1000.0) == 0.0
