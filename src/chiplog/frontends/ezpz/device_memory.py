"""Memory of torch's devices, under ezpz's names."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

logger = logging.getLogger("chiplog.ezpz")

GIB = 1 << 30
METRICS = ("mem_alloc", "mem_peak_alloc", "mem_reserved", "mem_peak_reserved")
QUERIES = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")  # of torch.cuda


def get_memory_metrics(device: object = None, *, reset_peak: bool = True, prefix: str = "") -> dict[str, float]:
    """Device memory in GiB: allocated, reserved, and the peaks of both; `{}` on a CPU, on MPS and with
    EZPZ_TRACK_MEMORY=0.

    Each call resets the peaks, unless `reset_peak=False`.
    """
    backend = None if os.environ.get("EZPZ_TRACK_MEMORY", "1").strip() == "0" else _backend(device)
    if backend is None:
        return {}
    try:
        values = [getattr(backend, query)(_index(device)) / GIB for query in QUERIES]
        if reset_peak:
            backend.reset_peak_memory_stats(_index(device))
    except Exception as error:  # drivers fail in many ways, and this is only a measurement
        logger.debug("cannot read the device memory: %s", error)
        return {}
    return {f"{prefix}{name}": value for name, value in zip(METRICS, values, strict=True)}


def get_current_memory_allocated(device: object = None) -> float:
    """Bytes in use on a device; 0 if they cannot be read."""
    return _query(device, QUERIES[0])


def get_max_memory_allocated(device: object = None) -> float:
    """The largest number of bytes that were in use."""
    return _query(device, QUERIES[1])


def get_current_memory_reserved(device: object = None) -> float:
    """Bytes that the allocator has reserved."""
    return _query(device, QUERIES[2])


def get_max_memory_reserved(device: object = None) -> float:
    """The largest number of bytes that the allocator had reserved."""
    return _query(device, QUERIES[3])


def reset_peak_memory_stats(device: object = None) -> None:
    """Reset the peaks of a device to what is in use now."""
    _query(device, "reset_peak_memory_stats")


def total(device: object = None) -> float | None:
    """The size of the device's memory in GiB; None if it is unknown."""
    try:
        if (backend := _backend(device)) is None:
            return None
        size: int = backend.get_device_properties(backend.current_device()).total_memory
        return size / GIB
    except Exception:  # as above
        return None


def _query(device: object, query: str) -> float:
    """The answer of torch's backend; 0 without a device, or if its driver fails."""
    try:
        if (backend := _backend(device)) is not None:
            return float(getattr(backend, query)(_index(device)) or 0)
    except Exception as error:  # as above
        logger.debug("cannot read the device memory: %s", error)
    return 0.0


def _index(device: object) -> object:
    """The device as torch takes it; None, the current one, for a name without a number."""
    return device if not isinstance(device, str) or ":" in device else None


def _backend(device: object) -> Any:
    """torch.cuda or torch.xpu, if torch is loaded and has such a device; None on a CPU and on MPS."""
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
