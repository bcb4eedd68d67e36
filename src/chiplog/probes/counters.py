"""Rates from counters that only grow: the increase since the last call, divided by the time since then."""

from __future__ import annotations

from collections.abc import Mapping

WRAP = 1 << 32  # where a 32-bit counter wraps around


class Rates:
    """Counters by name; `per_second` gives the rates since the last call."""

    def __init__(self) -> None:
        self._last: tuple[float, dict[str, float]] | None = None

    def per_second(self, now: float, counters: Mapping[str, float]) -> dict[str, float]:
        """The first call returns nothing; later ones omit a counter that is new or was reset."""
        last, self._last = self._last, (now, dict(counters))
        if last is None or not now > last[0]:
            return {}
        elapsed = now - last[0]
        grown = {name: _grown(last[1][name], value) for name, value in counters.items() if name in last[1]}
        return {name: amount / elapsed for name, amount in grown.items() if amount is not None}


def _grown(before: float, now: float) -> float | None:
    if now >= before:
        return now - before
    # A counter that was near the end of 32 bits has wrapped; any other decrease is a reset, for example by a driver.
    return now + WRAP - before if WRAP * 3 // 4 < before < WRAP and now < WRAP // 4 else None
