"""One finished span as an object, and the spans of a record."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chiplog.core import records


class StoredSpan(msgspec.Struct, frozen=True):
    """A finished interval of work; `start` is wall-clock nanoseconds, `thread` is its timeline."""

    id: int
    parent: int
    name: str
    thread: str
    start: int
    duration: int
    step: int | float | None = None
    tags: dict[str, records.Plain] = {}
    failed: bool = False
    rank: int = 0
    kind: str = ""  # of the timeline: "" for a thread, task, device, queue
    error: str = ""
    attempt: int = 0

    @property
    def end(self) -> int:
        return self.start + self.duration

    @property
    def seconds(self) -> float:
        return self.duration / 1e9

    @property
    def key(self) -> tuple[int, int, int]:
        """Identifies it among all spans of the run."""
        return self.rank, self.attempt, self.id

    @property
    def parent_key(self) -> tuple[int, int, int]:
        return self.rank, self.attempt, self.parent

    @property
    def timeline(self) -> tuple[int, int, str]:
        return self.rank, self.attempt, self.thread


def expand(batch: records.SpansRecord, rank: int, attempt: int) -> Iterator[StoredSpan]:
    """The spans of a record, one object each; none if the record is inconsistent."""
    if not _is_whole(batch):
        return
    failed = set(batch.failed)
    for name, thread, ident, parent, start, duration, step in zip(
        batch.name, batch.thread, batch.id, batch.parent, batch.start, batch.duration, batch.step, strict=True
    ):
        lane = batch.threads[thread]
        yield StoredSpan(
            ident,
            parent,
            batch.names[name],
            lane,
            start,
            duration,
            step,
            batch.tags.get(str(ident), {}),
            ident in failed,
            rank,
            batch.kinds.get(lane, ""),
            batch.errors.get(str(ident), ""),
            attempt,
        )


def _is_whole(batch: records.SpansRecord) -> bool:
    """Whether every column is as long as the others and every index points at something."""
    columns = (batch.name, batch.thread, batch.id, batch.parent, batch.start, batch.duration, batch.step)
    return (
        len({len(column) for column in columns}) == 1
        and all(0 <= name < len(batch.names) for name in batch.name)
        and all(0 <= thread < len(batch.threads) for thread in batch.thread)
    )
