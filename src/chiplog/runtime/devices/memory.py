"""Memory of the device this process computes on, from torch or JAX; neither is imported."""

from __future__ import annotations

import sys

import msgspec

from chiplog.runtime.devices.accelerator import jax_device, torch_backend


class DeviceMemory(msgspec.Struct, frozen=True):
    """Bytes on one device; None if the framework does not report them."""

    allocated: int
    peak: int | None = None  # the most that was allocated, since the start or the last `reset_peak`
    reserved: int | None = None  # by the framework, in use or not
    total: int | None = None

    @property
    def utilization(self) -> float | None:
        """The peak as a share of the device's memory; without a peak, what is allocated now."""
        return (self.allocated if self.peak is None else self.peak) / self.total if self.total else None


def read(device: int | None = None) -> dict[str, int | float]:
    """Bytes `allocated`, `peak`, `reserved` and `total`, and the `utilization`; `{}` on a CPU.

    The device is the current one of this process, or that with the given number.
    """
    memory = measure(device)
    if memory is None:
        return {}
    fields = {**msgspec.structs.asdict(memory), "utilization": memory.utilization}
    return {name: value for name, value in fields.items() if value is not None}


def measure(device: int | None = None) -> DeviceMemory | None:
    """The same as `read`, as an object; None on a CPU, and if the driver does not answer."""
    for measure_one in (_cuda, _xpu, _mps, _jax):
        try:
            if (memory := measure_one(device)) is not None:
                return memory
        except Exception:  # drivers fail in many ways, and this is only a measurement
            continue
    return None


def reset_peak(device: int | None = None) -> None:
    """Restart `peak`, if the framework can."""
    for name in ("cuda", "xpu"):
        backend = torch_backend(name)
        if backend is not None:
            backend.reset_peak_memory_stats(device)


def _cuda(device: int | None) -> DeviceMemory | None:
    return _torch("cuda", device)


def _xpu(device: int | None) -> DeviceMemory | None:
    return _torch("xpu", device)


def _torch(name: str, device: int | None) -> DeviceMemory | None:
    """torch.cuda (NVIDIA and AMD) and torch.xpu (Intel) have the same API."""
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
    """Apple: one device, without a peak."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.backends.mps.is_available():
        return None
    mps = torch.mps
    return DeviceMemory(
        mps.current_allocated_memory(), None, mps.driver_allocated_memory(), mps.recommended_max_memory()
    )


def _jax(device: int | None) -> DeviceMemory | None:
    chosen = jax_device(device)
    stats = None if chosen is None else chosen.memory_stats()
    if not stats or "bytes_in_use" not in stats:
        return None
    return DeviceMemory(
        stats["bytes_in_use"], stats.get("peak_bytes_in_use"), stats.get("bytes_reserved"), stats.get("bytes_limit")
    )
