"""Rows of a rank that keeps no journal: dropped if rank 0 logs the same names, and reported if it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from chiplog.core import messages
from chiplog.core.journals.memory_journal import is_logged
from chiplog.core.records import Record, Unknown

MOST = 1000  # sets of names that are told apart
NAMED = 5  # names in the message


class RowsWithoutJournal:
    """Counts the rows of this rank by the names in them."""

    def __init__(self, rank: int, kept: Callable[[Collection[str]], Collection[str]]) -> None:
        self._rank, self._kept = rank, kept  # which of these names rank 0 has logged
        self._rows: Counter[tuple[str, ...]] = Counter()

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            self.note(record)

    def note(self, record: Record) -> None:
        if not is_logged(record):
            return
        names = names_in(record)
        if names in self._rows or len(self._rows) < MOST:
            self._rows[names] += 1

    def missing(self) -> tuple[int, str]:
        """How many rows have a name that no rank keeps, and what to do; reported once."""
        names = {name for row in self._rows for name in row}
        if not names or not (lost := sorted(names - set(self._kept(names)))):
            return 0, ""
        rows = sum(count for row, count in self._rows.items() if not set(lost).isdisjoint(row))
        more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
        why = f"rank 0 keeps the run and has not logged {', '.join(map(repr, lost[:NAMED]))}{more}"
        fix = f"init(ranks=[0, {self._rank}]) keeps the rows of this rank too"
        messages.once(
            f"unkept {self._rank}",
            f"{rows:,} {'row' if rows == 1 else 'rows'} of rank {self._rank} not kept: {why}; {fix}",
        )
        return rows, f"{why}; {fix}"


def names_in(record: Record | Unknown) -> tuple[str, ...]:
    """The names that a logged record has values of."""
    return tuple(getattr(record, "metrics", ())) or (str(getattr(record, "name", "")),)
