"""A journal that a test can look into."""

from __future__ import annotations

from chiplog.core.journals.null_journal import NullJournal
from chiplog.core.records import Record


class Kept(NullJournal):
    """A journal in memory."""

    keeps = True

    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(self, record: Record) -> None:
        self.records.append(record)
