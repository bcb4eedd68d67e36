"""The attempt's own clock: wall-clock nanoseconds that never jump."""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP = 1_000_000_000  # ns: a wall clock that differs from ours by more has jumped


class RunClock:
    """Wall time at the start plus monotonic time since; changes of the wall clock do not affect it."""

    __slots__ = ("_jumped", "_mono", "_wall", "monotonic", "offset")

    def __init__(self, wall: Callable[[], int] = time.time_ns, mono: Callable[[], int] = time.monotonic_ns) -> None:
        self._wall, self._mono = wall, mono
        self.monotonic = mono()
        self.offset = wall() - self.monotonic  # monotonic time plus this is the time of a record
        self._jumped = 0

    def now(self) -> int:
        return self._mono() + self.offset

    def jump(self) -> tuple[int, int] | None:
        """(wall time, size of the jump) once for every jump of the wall clock by more than a second."""
        wall = self._wall()
        away = wall - self.now()
        moved = away - self._jumped
        if abs(moved) <= JUMP:
            return None
        self._jumped = away
        return wall, moved
