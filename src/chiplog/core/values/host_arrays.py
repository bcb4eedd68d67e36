"""Arrays of any library as numpy can read them."""

from __future__ import annotations

from typing import Any


def on_host(values: Any) -> Any:
    """A torch tensor as a numpy array, from any device; numpy has no bfloat16. Everything else is returned as it is."""
    if not hasattr(values, "detach"):
        return values
    values = values.detach().cpu()
    return values.double().numpy() if values.is_floating_point() else values.numpy()
