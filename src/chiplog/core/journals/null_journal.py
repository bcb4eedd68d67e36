"""A journal for ranks that take part in statistics and write nothing."""

from __future__ import annotations

from chiplog.core.records import Record


class NullJournal:
    """A journal that discards everything."""

    dropped = waiting = 0
    trouble = None
    at_disk = mine = keeps = False

    def append(self, record: Record) -> None:
        pass

    def count_lost(self) -> None:
        pass

    def flush(self, *, fsync: bool = False, timeout: float = 30.0) -> bool:  # noqa: ARG002
        return True

    def close(self, last: Record | None = None, timeout: float = 5.0) -> None:
        pass

    def forget(self) -> None:
        pass
