"""Gaps in the statistics across ranks: recorded as events, and reported by the main rank."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import NamedTuple, Protocol

from chiplog.core import messages


class GapEvents(Protocol):
    """The part of a run that records gaps."""

    def event(self, name: str, /, step: int | float | None = None, **data: object) -> None: ...


class Gap(NamedTuple):
    step: int | float
    since: float
    reason: str
    reported: bool


class Gaps:
    """At most one gap is open; a late rank is reported by itself. Only the `main` rank records and reports."""

    def __init__(self, deadline: float, *, main: bool) -> None:
        self._deadline, self._main = deadline, main
        self._absent: set[int] = set()  # the ranks that did not log in time
        self._absent_since: tuple[int | float, float] = (0, 0.0)  # step and time
        self.run: GapEvents | None = None
        self.open: Gap | None = None

    def record_absent(self, absent: set[int], step: int | float) -> None:
        """Report which ranks did not log in time, and record when they are back."""
        if absent == self._absent or not self._main or self.run is None:
            return
        new, before = absent - self._absent, self._absent
        self._absent = set(absent)
        if new:
            if not before:
                self._absent_since = step, time.monotonic()
            reason = f"{_ranks(new)} did not log within {self._deadline:g} s"
            self.run.event("gap", across="ranks", reason=reason, step=step)
            messages.once(
                f"late {id(self)}",
                f"{reason}: from step {step} on, rows have no statistics over all ranks; training continues, and "
                "statistics resume when all ranks are back",
            )
        elif not absent:
            first, since = self._absent_since
            self.run.event("gap", across="ranks", step=first, until=step, seconds=time.monotonic() - since)

    def start(self, reason: str, step: int | float, *, quiet: bool = False) -> None:
        """The statistics stop at a step; a `quiet` gap is reported only if it lasts."""
        if self.open is not None:
            return
        self.open = Gap(step, time.monotonic(), reason, reported=False)
        if self._main and self.run is not None:
            self.run.event("gap", across="ranks", reason=reason, step=step)
        if not quiet:
            self._report(self.open)

    def report_if_long(self) -> None:
        """Report a quiet gap that has lasted longer than the deadline."""
        if self.open is not None and not self.open.reported and time.monotonic() - self.open.since > self._deadline:
            self._report(self.open)

    def end(self, step: int | float) -> None:
        """The statistics continue at a step, if they had stopped."""
        gap, self.open = self.open, None
        if gap is not None and self._main and self.run is not None:
            seconds = time.monotonic() - gap.since
            if gap.reported:
                messages.say(f"statistics across ranks are back after {seconds:.0f} s")
            self.run.event("gap", across="ranks", step=gap.step, until=step, seconds=seconds)

    def record_unsent(self, rows: int, step: int | float, reason: str) -> None:
        """Report rows that ended without statistics."""
        messages.say(f"{rows:,} rows have no statistics across ranks: {reason}")
        if self.run is not None:
            self.run.event("gap", across="ranks", reason=reason, rows=rows, step=step)

    def _report(self, gap: Gap) -> None:
        self.open = gap._replace(reported=True)
        if self._main and self.run is not None:
            messages.say(
                f"statistics across ranks stop at step {gap.step}: {gap.reason}; training and journals continue, and "
                "statistics resume when all ranks are back"
            )


def rank_list(ranks: Collection[int]) -> str:
    """The first ranks of a collection, for a message."""
    return ", ".join(map(str, sorted(ranks)[:8])) + (", …" if len(ranks) > 8 else "")


def _ranks(ranks: set[int]) -> str:
    return f"rank {rank_list(ranks)}" if len(ranks) == 1 else f"ranks {rank_list(ranks)}"
