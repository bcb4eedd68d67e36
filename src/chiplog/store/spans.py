"""Stored spans: the columns of a batch as one object a span."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from chiplog.core import records


class Span(msgspec.Struct, frozen=True):
    """A finished stretch of work; `start` is wall-clock nanoseconds."""

    id: int
    parent: int
    name: str
    thread: str
    start: int
    duration: int
    step: int | float | None = None
    tags: dict[str, Any] = {}
    failed: bool = False
    rank: int = 0


def expand(batch: records.Spans, rank: int) -> Iterator[Span]:
    failed = set(batch.failed)
    if not _whole(batch):
        return
    for name, thread, ident, parent, start, duration, step in zip(
        batch.name, batch.thread, batch.id, batch.parent, batch.start, batch.duration, batch.step, strict=True
    ):
        yield Span(
            ident,
            parent,
            batch.names[name],
            batch.threads[thread],
            start,
            duration,
            step,
            batch.tags.get(str(ident), {}),
            ident in failed,
            rank,
        )


def _whole(batch: records.Spans) -> bool:
    """Whether every column is as long as the others and every index points at something."""
    columns = (batch.name, batch.thread, batch.id, batch.parent, batch.start, batch.duration, batch.step)
    return (
        len({len(column) for column in columns}) == 1
        and all(0 <= name < len(batch.names) for name in batch.name)
        and all(0 <= thread < len(batch.threads) for thread in batch.thread)
    )
