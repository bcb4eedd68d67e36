"""The rows of a rank that keeps no journal, in memory: what its `history` shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from chiplog.core.values import convert
from chiplog.core.values.convert import NUMBERS
from chiplog.runtime.devices.pending_values import PendingValues

MOST = 50_000  # newest values of a name that are kept: a rank without a journal must not grow without end


class OwnRows:
    """Values by name, in the order they came; one on a device is there once it has arrived."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[Any]] = {}
        self._pending = PendingValues()

    def add(self, row: Mapping[str, Any]) -> None:
        later = {}
        for name, value in row.items():
            if type(value) in NUMBERS:
                self._keep(name, value)
            elif self._pending.holds(value):
                later[name] = value
            else:
                self._keep(name, convert.plain(value))
        if later:
            self._pending.add(0, later)
        self._take()

    def by_name(self) -> dict[str, list[Any]]:
        self._take()
        return {name: list(kept) for name, kept in self._kept.items()}

    def _take(self) -> None:
        for _, row in self._pending.ready() if len(self._pending) else ():
            for name, value in row.items():
                self._keep(name, convert.plain(value))

    def _keep(self, name: str, value: Any) -> None:
        self._kept.setdefault(name, deque(maxlen=MOST)).append(value)
