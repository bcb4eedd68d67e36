"""Rows of a rank that keeps no journal: dropped if those that do log the same names, and reported if they do not."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from chiplog.core import messages
from chiplog.core.journals.memory_journal import is_logged
from chiplog.core.records import Record, Unknown
from chiplog.core.values.flatten import flatten

MOST = 1000  # sets of names that are told apart
NAMED = 5  # names and ranks in the message
PAUSE = 0.05  # s between looks at what is kept


class RowsWithoutJournal:
    """Counts the rows of this rank by the names in them."""

    def __init__(
        self,
        rank: int,
        kept: Callable[[Collection[str]], Collection[str]],
        keepers: Sequence[int] = (0,),
        patience: float = 0.0,
    ) -> None:
        self._rank, self._kept = rank, kept  # which of these names the keepers have logged
        self._keepers, self._patience = keepers, patience  # s that they may be behind at the end
        self._rows: Counter[tuple[str, ...]] = Counter()

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            self.note(record)

    def note(self, record: Record) -> None:
        if is_logged(record):
            self._count(names_in(record))

    def note_row(self, metrics: Mapping[str, object]) -> None:
        """Count a row whose values may be of any kind; they are not read."""
        self._count(tuple(name for name, value in flatten(metrics) if value is not None))

    def missing(self) -> tuple[int, str]:
        """How many rows have a name that no rank keeps, and what to do; reported once."""
        names = {name for row in self._rows for name in row}
        if not names or not (lost := self._lost(names)):
            return 0, ""
        rows = sum(count for row, count in self._rows.items() if not set(lost).isdisjoint(row))
        more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
        why = f"{self._who()} not logged {', '.join(map(repr, lost[:NAMED]))}{more}"
        fix = f"{self._fix()} keeps the rows of this rank too"
        messages.once(
            f"unkept {self._rank} {id(self)}",
            f"{rows:,} {'row' if rows == 1 else 'rows'} of rank {self._rank} not kept: {why}; {fix}",
        )
        return rows, f"{why}; {fix}"

    def _count(self, names: tuple[str, ...]) -> None:
        if names and (names in self._rows or len(self._rows) < MOST):
            self._rows[names] += 1

    def _lost(self, names: set[str]) -> list[str]:
        deadline = time.monotonic() + self._patience
        while (lost := sorted(names - set(self._kept(names)))) and time.monotonic() < deadline:
            time.sleep(PAUSE)
        return lost

    def _who(self) -> str:
        if len(self._keepers) == 1:
            return f"rank {self._keepers[0]} keeps the run and has"
        more = " and others" if len(self._keepers) > NAMED else ""
        return f"ranks {', '.join(map(str, self._keepers[:NAMED]))}{more} keep the run and have"

    def _fix(self) -> str:
        if len(self._keepers) > NAMED:
            return f"{self._rank} in init(ranks=[...])"
        return f"init(ranks={sorted({*self._keepers, self._rank})})"


def names_in(record: Record | Unknown) -> tuple[str, ...]:
    """The names that a logged record has values of."""
    return tuple(getattr(record, "metrics", ())) or (str(getattr(record, "name", "")),)
