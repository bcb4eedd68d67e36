"""The rows of this rank that wait to be sent to the others."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from chiplog.core import messages
from chiplog.core.records import Row
from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import Topic

MOST_ROWS, MOST_VALUES = 10_000, 1_000_000  # bounds while the group is incomplete; the values are an estimate
NAME = 100  # characters of names that count as a value
FEW = 100  # rows that may wait, however long they are


class QueuedRow(NamedTuple):
    """One row as it was logged; `position` is its place in the order if its step was counted."""

    topic: Topic
    step: int | float
    values: Row | Values
    time: int  # wall-clock nanoseconds
    position: int | None = None


class RowQueue:
    """A bounded queue without a lock: any thread appends, and the holder of the round lock takes."""

    def __init__(self) -> None:
        self._rows: deque[QueuedRow] = deque()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def oldest(self) -> QueuedRow:
        return self._rows[0]

    def append(self, row: QueuedRow) -> None:
        """Add a row; if the queue is full, the oldest one is dropped and that is reported."""
        if len(self._rows) >= FEW:
            self._make_room(max(FEW, min(MOST_ROWS, MOST_VALUES // _weigh(row.values))))
        self._rows.append(row)

    def pop(self) -> QueuedRow:
        return self._rows.popleft()

    def clear(self) -> None:
        self._rows.clear()

    def _make_room(self, most: int) -> None:
        if len(self._rows) < most:
            return
        messages.once("ranks behind", f"more than {most:,} rows wait for the other ranks; the oldest are dropped")
        try:
            self._rows.popleft()
        except IndexError:  # the thread has just taken them all
            pass


def _weigh(values: Row | Values) -> int:
    """About how many values with short names take as much memory."""
    names = values.names if isinstance(values, Values) else values
    return max(1, len(names), sum(len(str(name)) for name in names) // NAME)
