"""Values of any library as numpy knows them."""

from __future__ import annotations

from typing import Any


def on_host(values: Any) -> Any:
    """A tensor of torch as an array, wherever it is: its bfloat16 is unknown to numpy. All else as it is."""
    if not hasattr(values, "detach"):
        return values
    values = values.detach().cpu()
    return values.double().numpy() if values.is_floating_point() else values.numpy()
