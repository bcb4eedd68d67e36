"""A backend for tests of the Tunix front end."""

from __future__ import annotations

from typing import Any


class Keeps:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any, Any]] = []
        self.closed = 0

    def log_scalar(self, event: str, value: Any, **kwargs: Any) -> None:
        assert not self.closed
        self.events.append((event, value, kwargs.get("step")))

    def close(self) -> None:
        self.closed += 1

    def named(self, name: str) -> list[tuple[Any, Any]]:
        """(step, value) of everything under a name."""
        return [(step, value) for event, value, step in self.events if event == name]
