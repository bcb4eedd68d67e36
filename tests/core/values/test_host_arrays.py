"""Arrays on the host."""

from __future__ import annotations

import numpy as np
import torch

from chiplog.core.values.host_arrays import on_host


def test_tensors_become_arrays() -> None:
    """A bfloat16 tensor that is part of a graph is read without loss; integers stay integers."""
    weights = torch.tensor([1.5, 2.0], dtype=torch.bfloat16, requires_grad=True)
    assert on_host(weights).tolist() == [1.5, 2.0] and on_host(weights).dtype == np.float64
    assert on_host(torch.tensor([3])).dtype == np.int64


def test_everything_else_is_unchanged() -> None:
    """Lists and numpy arrays are returned as they are."""
    array = np.zeros(2)
    assert on_host(array) is array and on_host([1, 2]) == [1, 2]
