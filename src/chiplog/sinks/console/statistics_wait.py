"""Rows that wait a moment for their statistics across ranks, so that their line can show the whole step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

from chiplog.core.records import Number, Plain
from chiplog.sinks.shared.rows import Row

PATIENCE = 1.5  # s: statistics come with the next steps of all ranks, or a second after a long step
MOST = 1000  # rows that may wait
MISSES = 3  # rows in a row without statistics, after which no row waits until there are some again


class WaitingRow:
    """One row, and the statistics of its step once they are there."""

    __slots__ = ("row", "since", "statistics")

    def __init__(self, row: Row, since: float, statistics: Mapping[str, Plain] | None = None) -> None:
        self.row, self.since, self.statistics = row, since, statistics


class StatisticsWait:
    """Rows in their order, each until its statistics are there or it has waited too long.

    Nothing waits unless a run computes statistics in the background, nor while they do not come: many scripts log on
    one rank only.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._rows: dict[Number | None, WaitingRow] = {}
        self._early: tuple[Number | None, Mapping[str, Plain]] = (None, {})  # of the row that is still open
        self._expected = False
        self._misses = 0
        self.inline = False  # whether rows come with their statistics

    @property
    def active(self) -> bool:
        """Whether rows wait."""
        return self._expected and self._misses < MISSES

    def expect(self, statistics: object) -> None:
        """A run starts, with statistics that are written later or not."""
        self._expected, self._misses, self.inline = statistics == "async", 0, statistics == "sync"

    def add(self, row: Row) -> list[WaitingRow]:
        """Add a complete row; returns the rows that need not wait any longer."""
        step, statistics = self._early
        early = statistics if step == row.step and statistics else None
        if not self.active:
            return [*self.drain(), WaitingRow(row, 0.0, early)]
        ready = self.drain() if row.step in self._rows else []
        self._rows[row.step] = WaitingRow(row, self._clock(), early)
        return ready + self.ready()

    def join(self, step: Number, statistics: Mapping[str, Plain]) -> bool:
        """Add the statistics of a step; returns whether its row is complete and waits for them."""
        self._misses = 0
        waiting = self._rows.get(step)
        if waiting is None:
            self._early = step, statistics
            return False
        waiting.statistics = statistics if waiting.statistics is None else {**waiting.statistics, **statistics}
        return True

    def ready(self) -> list[WaitingRow]:
        """Remove the oldest rows that have their statistics or have waited too long."""
        ready: list[WaitingRow] = []
        late = self._clock() - PATIENCE
        for step, waiting in list(self._rows.items()):
            if waiting.statistics is None and waiting.since > late and len(self._rows) <= MOST:
                break
            if waiting.statistics is None:
                self._misses += 1
            ready.append(self._rows.pop(step))
        return ready

    def drain(self) -> list[WaitingRow]:
        """Remove all rows, as they are."""
        rows = list(self._rows.values())
        self._rows = {}
        return rows
