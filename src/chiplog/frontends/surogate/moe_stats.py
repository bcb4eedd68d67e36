"""`get_moe_stats()`, of a logger and for trainers of your own."""

from __future__ import annotations

from collections.abc import Mapping

from chiplog.metrics.moe import DOCUMENTED, FIELDS, Router

NAN = float("nan")


class RouterStats:
    """Gives a trainer `get_moe_stats()`, from a `Router` that it observes at each step.

    >>> class Trainer(RouterStats): ...
    >>> trainer.observe(chiplog.Router(counts, probs))
    >>> trainer.get_moe_stats()["load_imbalance"]
    """

    _router: Router | None = None

    def observe(self, router: Router | None) -> None:
        """Keep the routing of this step; None for a dense model."""
        self._router = router

    def get_moe_stats(self, full: bool = False) -> dict[str, float | bool]:
        """The four documented numbers, or with `full` all ten, and `valid`; zeros and False without routers."""
        return moe_stats(self._router.health() if self._router is not None else {}, full)


def moe_stats(numbers: Mapping[str, float], full: bool = False) -> dict[str, float | bool]:
    """What `get_moe_stats` returns for these numbers: NaN for a missing one, zeros for a dense model."""
    missing = NAN if numbers else 0.0
    return {**{name: numbers.get(name, missing) for name in (FIELDS if full else DOCUMENTED)}, "valid": bool(numbers)}
