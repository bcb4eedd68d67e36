"""`get_moe_stats()` for trainers of your own."""

from __future__ import annotations

import math

from chiplog.frontends.surogate import RouterStats
from chiplog.frontends.surogate.moe_stats import moe_stats
from chiplog.metrics.moe import DOCUMENTED, FIELDS


def test_a_dense_model_has_zeros() -> None:
    """`valid` is False until a router has been observed."""
    assert RouterStats().get_moe_stats() == {**dict.fromkeys(DOCUMENTED, 0.0), "valid": False}


def test_a_missing_number_is_nan() -> None:
    """The four documented numbers, or all ten."""
    stats = moe_stats({"aux_loss": 0.5}, full=True)
    assert stats["aux_loss"] == 0.5 and stats["valid"] is True and set(stats) == {*FIELDS, "valid"}
    assert math.isnan(stats["z_loss"])
