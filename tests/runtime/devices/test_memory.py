"""Memory of the device, as torch and JAX say it; there is no device here, so what answers has their functions' names."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from chiplog.runtime.devices import accelerator as device
from chiplog.runtime.devices import memory

GIB = 1 << 30


def accelerator(**more: Any) -> SimpleNamespace:
    """What torch.cuda and torch.xpu answer; device 1 is the current one."""
    used = {0: 10 * GIB, 1: 20 * GIB}
    return SimpleNamespace(
        **{
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "current_device": lambda: 1,
            "memory_allocated": lambda device=None: used[1 if device is None else device],
            "max_memory_allocated": lambda device=None: used[1 if device is None else device] * 2,
            "memory_reserved": lambda device=None: used[1 if device is None else device] * 3,
            "get_device_properties": lambda device: SimpleNamespace(total_memory=80 * GIB),
            "get_device_name": lambda device=None: "NVIDIA H100 80GB HBM3",
            **more,
        }
    )


def nothing() -> SimpleNamespace:
    return SimpleNamespace(is_available=lambda: False)


def torch_with(monkeypatch: pytest.MonkeyPatch, **backends: Any) -> None:
    off = {"cuda": nothing(), "xpu": nothing(), "backends": SimpleNamespace(mps=nothing())}
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(**{**off, **backends}))
    monkeypatch.delitem(sys.modules, "jax._src.xla_bridge", raising=False)


def test_on_a_cpu_there_is_nothing_to_say() -> None:
    """With torch and JAX loaded and used: an empty row, and no name."""
    import jax.numpy as jnp
    import torch

    assert (torch.ones(2).sum(), jnp.ones(2).sum()) is not None
    assert memory.read() == {} and memory.measure() is None and device.name() is None
    memory.reset_peak()


def test_nothing_is_imported_to_find_out() -> None:
    """A process without torch and JAX stays without them."""
    code = (
        "import sys\n"
        "from chiplog.runtime.devices import accelerator as device, memory\n"
        "assert memory.read() == {} and device.name() is None\n"
        "print({'torch', 'jax'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", ["cuda", "xpu"])
def test_torch_says_it_for_the_current_device_or_another(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The utilization is that of the worst moment."""
    torch_with(monkeypatch, **{name: accelerator()})
    expected = {"allocated": 20 * GIB, "peak": 40 * GIB, "reserved": 60 * GIB, "total": 80 * GIB, "utilization": 0.5}
    assert memory.read() == expected
    assert memory.read(0)["allocated"] == 10 * GIB
    assert device.name() == "NVIDIA H100 80GB HBM3"


def test_a_device_that_is_not_in_use_is_not_woken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking would take hundreds of megabytes of it."""
    torch_with(monkeypatch, cuda=accelerator(is_initialized=lambda: False))
    assert memory.read() == {} and device.name() is None


def test_a_driver_that_fails_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no exception."""

    def gone(device: int | None = None) -> int:
        raise RuntimeError("CUDA error: device lost")

    torch_with(monkeypatch, cuda=accelerator(memory_allocated=gone, get_device_name=gone))
    assert memory.read() == {} and device.name() is None


def test_apple_keeps_no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the row has none, and the utilization is that of now."""
    mps = SimpleNamespace(
        current_allocated_memory=lambda: 4 * GIB,
        driver_allocated_memory=lambda: 6 * GIB,
        recommended_max_memory=lambda: 16 * GIB,
    )
    torch_with(monkeypatch, mps=mps, backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: True)))
    assert memory.read() == {"allocated": 4 * GIB, "reserved": 6 * GIB, "total": 16 * GIB, "utilization": 0.25}


def test_jax_says_it_for_its_first_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the allocator's statistics, once its backends are set up."""
    stats = {"bytes_in_use": 8 * GIB, "peak_bytes_in_use": 16 * GIB, "bytes_limit": 32 * GIB}
    tpu = SimpleNamespace(platform="tpu", device_kind="TPU v4", memory_stats=lambda: stats)
    torch_with(monkeypatch)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(local_devices=lambda: [tpu]))
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", SimpleNamespace(_backends={}))
    assert memory.read() == {}
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", SimpleNamespace(_backends={"tpu": object()}))
    assert memory.read() == {"allocated": 8 * GIB, "peak": 16 * GIB, "total": 32 * GIB, "utilization": 0.5}
    assert device.name() == "TPU v4"
