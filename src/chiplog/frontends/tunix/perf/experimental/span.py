"""Spans as the second version has them: with an id on their timeline, a parent there, and tags; times in seconds."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec

from chiplog.core import messages


class Span(msgspec.Struct):
    """A stretch of work; its end is infinite while it is open, `error` says what went wrong in it."""

    name: str
    begin: float
    id: int
    parent_id: int | None = None
    tags: dict[str, Any] = {}
    end: float = inf
    error: str = ""
    children: list[Span] = []  # filled in by a timeline's `root`

    @property
    def ended(self) -> bool:
        return self.end != inf

    @property
    def duration(self) -> float:
        return self.end - self.begin

    def add_tag(self, key: str, value: Any) -> None:
        """Tag it; a tag that is there already is replaced, and said."""
        if key in self.tags:
            messages.once(
                f"tunix tag {key}",
                f"Tag '{key}' already exists with value {self.tags[key]!r}. Overwriting with {value!r}.",
            )
        self.tags[key] = value
