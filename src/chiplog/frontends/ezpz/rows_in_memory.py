"""The rows of a rank without a journal, in memory: what its `history` shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from chiplog.core.records import Plain
from chiplog.core.values import convert
from chiplog.core.values.convert import NUMBERS
from chiplog.runtime.devices.pending_values import PendingValues

MOST = 50_000  # newest values per name, so that memory does not grow without bound


class RowsInMemory:
    """Values by name, in the order they were logged; one on a device appears once it is on the host."""

    def __init__(self) -> None:
        self._values: dict[str, deque[Plain]] = {}
        self._pending = PendingValues()

    def add(self, row: Mapping[str, object]) -> None:
        later = {}
        for name, value in row.items():
            if type(value) in NUMBERS:
                self._append(name, value)
            elif self._pending.holds(value):
                later[name] = value
            else:
                self._append(name, convert.plain(value))
        if later:
            self._pending.add(0, later)
        self._collect()

    def by_name(self) -> dict[str, list[Plain]]:
        self._collect()
        return {name: list(values) for name, values in self._values.items()}

    def _collect(self) -> None:
        """Append the values that have arrived from their devices."""
        for _, row in self._pending.ready() if len(self._pending) else ():
            for name, value in row.items():
                self._append(name, convert.plain(value))

    def _append(self, name: str, value: Plain) -> None:
        self._values.setdefault(name, deque(maxlen=MOST)).append(value)
