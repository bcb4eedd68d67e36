"""Memory of torch's devices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from chiplog.frontends import ezpz

GIB = 1 << 30


class Cuda(SimpleNamespace):
    """A device with fixed answers."""

    def __init__(self) -> None:
        self.resets = 0
        super().__init__(
            is_available=lambda: True,
            memory_allocated=lambda _: 1 * GIB,
            max_memory_allocated=lambda _: 2 * GIB,
            memory_reserved=lambda _: 3 * GIB,
            max_memory_reserved=lambda _: 4 * GIB,
            reset_peak_memory_stats=self._reset,
            current_device=lambda: 0,
            get_device_properties=lambda _: SimpleNamespace(total_memory=16 * GIB),
        )

    def _reset(self, _: Any) -> None:
        self.resets += 1


def test_memory_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four numbers in GiB, in this order; the peaks are reset once."""
    cuda = Cuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    assert list(ezpz.get_memory_metrics("cuda", prefix="train/").items()) == [
        ("train/mem_alloc", 1.0),
        ("train/mem_peak_alloc", 2.0),
        ("train/mem_reserved", 3.0),
        ("train/mem_peak_reserved", 4.0),
    ]
    assert cuda.resets == 1
    ezpz.get_memory_metrics(torch.device("cuda", 0), reset_peak=False)
    assert cuda.resets == 1


def test_memory_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the peak as a share of the device."""
    monkeypatch.setattr(torch, "cuda", Cuda())
    metrics = {"loss": 0.5} | ezpz.get_memory_metrics("cuda", prefix="train/")
    assert ezpz.History().update(metrics, precision=1) == "loss=0.5 memory=1.00/3.00GiB (25%)"


@pytest.mark.parametrize("device", ["cpu", "mps", torch.device("cpu"), None])
def test_no_memory_without_a_device(device: Any) -> None:
    """A CPU and Apple's GPU have no such metrics."""
    assert ezpz.get_memory_metrics(device) == {}


def test_memory_may_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is read at each call."""
    monkeypatch.setattr(torch, "cuda", Cuda())
    monkeypatch.setenv("EZPZ_TRACK_MEMORY", "0")
    assert ezpz.get_memory_metrics("cuda") == {}
    monkeypatch.setenv("EZPZ_TRACK_MEMORY", "1")
    assert len(ezpz.get_memory_metrics("cuda")) == 4


def test_single_numbers_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes; 0 on a CPU. Their names as metrics are known in every group."""
    monkeypatch.setattr(torch, "cuda", cuda := Cuda())
    assert ezpz.get_current_memory_allocated("cuda") == GIB and ezpz.get_max_memory_allocated("cuda:0") == 2 * GIB
    assert ezpz.get_current_memory_reserved() == 3 * GIB and ezpz.get_max_memory_reserved("cuda") == 4 * GIB
    ezpz.reset_peak_memory_stats("cuda")
    assert cuda.resets == 1 and ezpz.get_max_memory_allocated("cpu") == 0
    assert ezpz.utils.is_memory_metric("train/mem_alloc/std") and not ezpz.utils.is_memory_metric("train/loss")
