"""`get_moe_stats()`, of a logger and for a trainer of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chiplog.metrics.moe import DOCUMENTED, FIELDS, Router

NAN = float("nan")


class RouterStats:
    """What a trainer is or has to answer `get_moe_stats()`: give it a `Router` each step.

    >>> class Trainer(RouterStats): ...
    >>> trainer.observe(chiplog.Router(counts, probs))
    >>> trainer.get_moe_stats()["load_imbalance"]
    """

    _router: Router | None = None

    def observe(self, router: Router | None) -> None:
        """What the routers did in this step; None for a dense model."""
        self._router = router

    def get_moe_stats(self, full: bool = False) -> dict[str, Any]:
        """The four documented numbers, or with `full` all ten, and `valid`; zeros and False without routers."""
        return moe_stats(self._router.health() if self._router is not None else {}, full)


def moe_stats(known: Mapping[str, Any], full: bool = False) -> dict[str, Any]:
    """What `get_moe_stats` returns for these numbers: NaN for one that is not known, zeros for a dense model."""
    unknown = NAN if known else 0.0
    return {**{name: known.get(name, unknown) for name in (FIELDS if full else DOCUMENTED)}, "valid": bool(known)}
