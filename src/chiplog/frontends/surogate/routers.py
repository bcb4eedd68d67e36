"""`get_moe_stats()` for a trainer of one's own."""

from __future__ import annotations

from typing import Any

from chiplog.frontends.surogate.logger import moe_stats
from chiplog.metrics.moe import Router


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
