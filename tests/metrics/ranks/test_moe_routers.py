"""Routers of several ranks, pooled."""

from __future__ import annotations

import numpy as np
import pytest

from chiplog.metrics.moe import Router
from chiplog.metrics.ranks.moe_routers import flat, pool


def test_counts_are_added_and_means_weighted_by_tokens() -> None:
    """A layer without tokens on a rank does not count there."""
    one = Router(np.array([[3, 1], [2, 2]]), z=np.array([1.0, 1.0]), aux_coefficient=0.01)
    other = Router(np.array([[6, 6], [0, 0]]), z=np.array([5.0, 9.0]), aux_coefficient=0.01)
    arrays = pool([flat("moe", one), flat("moe", other)]).by_layer()
    assert arrays["counts"].tolist() == [[9, 7], [2, 2]]
    assert arrays["z"].tolist() == [4.0, 1.0]


def test_routers_of_different_shapes_are_refused() -> None:
    """The message has both shapes."""
    with pytest.raises(ValueError, match="1 x 2, 1 x 3"):
        pool([flat("moe", Router([[1, 2]])), flat("moe", Router([[1, 2, 3]]))])
