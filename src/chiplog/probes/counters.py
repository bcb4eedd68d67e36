"""Rates from counters that only grow: what happened since the last look, by the time since then."""

from __future__ import annotations

from collections.abc import Mapping

WRAP = 1 << 32  # where a counter of 32 bits begins anew


class Rates:
    """Counters by name, each the amount since its start; `per_second` is about the time since the last call."""

    def __init__(self) -> None:
        self._last: tuple[float, dict[str, float]] | None = None

    def per_second(self, now: float, counters: Mapping[str, float]) -> dict[str, float]:
        """Nothing at the first call, and nothing for a counter that is new, or was set back."""
        last, self._last = self._last, (now, dict(counters))
        if last is None or not now > last[0]:
            return {}
        elapsed = now - last[0]
        grown = {name: _grown(last[1][name], value) for name, value in counters.items() if name in last[1]}
        return {name: amount / elapsed for name, amount in grown.items() if amount is not None}


def _grown(before: float, now: float) -> float | None:
    if now >= before:
        return now - before
    # A counter near the end of 32 bits has begun anew; any other that is lower was set back, by a driver say.
    return now + WRAP - before if WRAP * 3 // 4 < before < WRAP and now < WRAP // 4 else None
