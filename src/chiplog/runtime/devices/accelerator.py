"""The accelerator this process computes on, from torch or JAX; nothing is imported, and no device is initialised."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any


def name(device: int | None = None) -> str | None:
    """The name of the device, as in the table of `metrics.hardware`; None on a CPU."""
    try:
        for backend in (torch_backend("cuda"), torch_backend("xpu")):
            if backend is not None:
                return str(backend.get_device_name(device))
        if (first := jax_device(device)) is not None:
            return str(first.device_kind)
    except Exception:  # drivers fail in many ways, and this is only a query
        pass
    return None


def capability(device: int | None = None) -> tuple[int, int] | None:
    """The compute capability of an NVIDIA GPU."""
    cuda = torch_backend("cuda")
    if cuda is None:
        return None
    major, minor = cuda.get_device_capability(device)
    return int(major), int(minor)


def snapshot(path: Path) -> bool:
    """Save the state of torch's allocator on NVIDIA GPUs to a file; False if there are none."""
    cuda = torch_backend("cuda")
    if cuda is None:
        return False
    with path.open("wb") as file:
        pickle.dump(cuda.memory._snapshot(), file)
    return True


def torch_backend(name: str) -> Any:
    """torch.cuda or torch.xpu, if this process computes there already; otherwise None."""
    backend = getattr(sys.modules.get("torch"), name, None)
    return backend if backend is not None and backend.is_available() and backend.is_initialized() else None


def is_asleep() -> bool:
    """Whether torch has a GPU that is not initialised yet, so that its name is unknown."""
    backends = (getattr(sys.modules.get("torch"), name, None) for name in ("cuda", "xpu"))
    try:
        return any(one is not None and one.is_available() and not one.is_initialized() for one in backends)
    except Exception:  # drivers fail in many ways
        return False


def jax_device(device: int | None = None) -> Any:
    """JAX's device, if its backends have been set up and it is not a CPU; otherwise None."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None or not getattr(bridge, "_backends", None):
        return None
    chosen = sys.modules["jax"].local_devices()[device or 0]
    return None if chosen.platform == "cpu" else chosen
