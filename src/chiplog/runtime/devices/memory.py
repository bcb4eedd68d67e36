"""Memory of the device this process computes on, asked of torch or JAX; nothing is imported that is not loaded."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from chiplog.runtime.devices.accelerator import jax_device, torch_backend


class DeviceMemory(msgspec.Struct, frozen=True):
    """Bytes on one device. None: the framework does not say."""

    allocated: int
    peak: int | None = None  # the most that was allocated, since the start or the last `reset_peak`
    reserved: int | None = None  # taken from the device, used or not
    total: int | None = None

    @property
    def utilization(self) -> float | None:
        """The share of the device that was needed at the worst moment; where no peak is kept, that is in use."""
        return (self.allocated if self.peak is None else self.peak) / self.total if self.total else None


def read(device: int | None = None) -> dict[str, int | float]:
    """Bytes `allocated`, `peak`, `reserved` and `total`, and the `utilization`; `{}` on a CPU.

    The device is the current one of this process, or that with the given number.
    """
    found = measure(device)
    if found is None:
        return {}
    known: dict[str, Any] = {**msgspec.structs.asdict(found), "utilization": found.utilization}
    return {name: value for name, value in known.items() if value is not None}


def measure(device: int | None = None) -> DeviceMemory | None:
    """What `read` says, as an object; None on a CPU, and when the driver does not answer."""
    for look in (_cuda, _xpu, _mps, _jax):
        try:
            if (found := look(device)) is not None:
                return found
        except Exception:  # drivers fail in many ways, and this is only a measurement
            continue
    return None


def reset_peak(device: int | None = None) -> None:
    """Let `peak` begin anew, where the framework can."""
    for name in ("cuda", "xpu"):
        backend = torch_backend(name)
        if backend is not None:
            backend.reset_peak_memory_stats(device)


def _cuda(device: int | None) -> DeviceMemory | None:
    return _torch("cuda", device)


def _xpu(device: int | None) -> DeviceMemory | None:
    return _torch("xpu", device)


def _torch(name: str, device: int | None) -> DeviceMemory | None:
    """torch.cuda (NVIDIA and AMD) and torch.xpu (Intel) have the same questions."""
    backend = torch_backend(name)
    if backend is None:
        return None
    return DeviceMemory(
        backend.memory_allocated(device),
        backend.max_memory_allocated(device),
        backend.memory_reserved(device),
        backend.get_device_properties(backend.current_device() if device is None else device).total_memory,
    )


def _mps(_: int | None) -> DeviceMemory | None:
    """Apple: one device, which keeps no peak."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.backends.mps.is_available():
        return None
    mps = torch.mps
    return DeviceMemory(
        mps.current_allocated_memory(), None, mps.driver_allocated_memory(), mps.recommended_max_memory()
    )


def _jax(device: int | None) -> DeviceMemory | None:
    found = jax_device(device)
    stats = None if found is None else found.memory_stats()
    if not stats or "bytes_in_use" not in stats:
        return None
    return DeviceMemory(
        stats["bytes_in_use"], stats.get("peak_bytes_in_use"), stats.get("bytes_reserved"), stats.get("bytes_limit")
    )
