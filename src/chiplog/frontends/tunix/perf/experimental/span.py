"""Spans of the second version: with an id and a parent on their timeline, and tags; times in seconds."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec

from chiplog.core import messages


class Span(msgspec.Struct):
    """An interval of work; its end is infinite while it is open, and `error` is set if the work failed."""

    name: str
    begin: float
    id: int
    parent_id: int | None = None
    tags: dict[str, Any] = {}
    end: float = inf
    error: str = ""
    children: list[Span] = []  # set by `Timeline.root`

    @property
    def ended(self) -> bool:
        return self.end != inf

    @property
    def duration(self) -> float:
        return self.end - self.begin

    def add_tag(self, key: str, value: object) -> None:
        """Set a tag; replacing one is reported."""
        if key in self.tags:
            messages.once(
                f"tunix tag {key}",
                f"Tag '{key}' already exists with value {self.tags[key]!r}. Overwriting with {value!r}.",
            )
        self.tags[key] = value
