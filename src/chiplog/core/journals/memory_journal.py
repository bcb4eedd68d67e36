"""The journal of a rank that may have to keep the run: records stay in memory until that is decided."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from chiplog.core.protocols import JournalLike
from chiplog.core.records import Attempt, Eval, File, HistogramRecord, MatrixRecord, Record, Step, Table, TextRecord

# Kinds that users log; others (spans, samples of probes, the clock) are recorded automatically.
LOGGED = frozenset((Step, Eval, Table, HistogramRecord, MatrixRecord, TextRecord, File))

FEW = 1000  # records that are held while nothing has been logged


def is_logged(record: Record) -> bool:
    """Whether a user logged this record; statistics across ranks do not count."""
    return type(record) in LOGGED and not getattr(record, "across", False)


class MemoryJournal:
    """Holds records until `open` writes them to a journal or `release` drops them.

    `first` is called once, when something has been logged.
    """

    def __init__(self, first: Callable[[], None]) -> None:
        self._first: Callable[[], None] | None = first
        self._journal: JournalLike | None = None
        self._held: list[Record] = []
        self._holding = threading.RLock()
        self.keeps = True  # False after `release`
        self.tracing: tuple[bool, int | None] = (True, None)  # whether to keep spans, and of every how many steps
        self._lost = 0
        self._trouble: str | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def undecided(self) -> bool:
        return self.keeps and self._journal is None

    @property
    def logged(self) -> bool:
        """Whether something has been logged."""
        return self._first is None

    def append(self, record: Record) -> None:
        if self._journal is not None:
            self._journal.append(record)
        elif self.keeps:
            self._hold(record)

    def _hold(self, record: Record) -> None:
        with self._holding:
            if self._journal is not None:
                self._journal.append(record)
            elif self.keeps:
                self._held.append(record)
                if len(self._held) > FEW and not self.logged:  # automatic records, perhaps for days
                    del self._held[1 : FEW // 2]
        if is_logged(record):
            self.notice()

    def notice(self) -> None:
        """Note that something has been logged: a record, or what becomes one later."""
        with self._holding:
            first, self._first = self._first, None
        if first is not None:
            first()

    def open(self, journal: JournalLike, attempt: int, durability: str) -> None:
        """Write the held records, and all later ones, to a journal; the first record gets the number of the attempt."""
        with self._holding:
            for record in self._held:
                if type(record) is Attempt:
                    journal.append(msgspec.structs.replace(record, attempt=attempt, durability=durability))
                else:
                    journal.append(record)
            self._held = []
            self._journal = journal

    def release(self) -> list[Record]:
        """Drop the held records, because another rank keeps the run, and return them."""
        with self._holding:
            self.keeps = self._journal is not None
            released, self._held = self._held, []
            return released

    def lose(self, why: str) -> None:
        """Drop the held records because they cannot be kept, and count them."""
        with self._holding:
            self._lost, self._trouble = sum(map(is_logged, self._held)), why
        self.release()

    # -- as a journal ----------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> int:
        return self._lost + (self._journal.dropped if self._journal is not None else 0)

    @property
    def waiting(self) -> int:
        return self._journal.waiting if self._journal is not None else len(self._held)

    @property
    def trouble(self) -> str | None:
        return self._journal.trouble if self._journal is not None else self._trouble

    @property
    def at_disk(self) -> bool:
        return self._journal is not None and self._journal.at_disk

    @property
    def mine(self) -> bool:
        return self._journal is not None and self._journal.mine

    def count_lost(self) -> None:
        if self._journal is not None:
            self._journal.count_lost()
        else:
            self._lost += 1

    def flush(self, *, fsync: bool = False, timeout: float = 30.0) -> bool:
        return self._journal.flush(fsync=fsync, timeout=timeout) if self._journal is not None else not self._held

    def close(self, last: Record | None = None, timeout: float = 5.0) -> None:
        if self._journal is not None:
            self._journal.close(last, timeout)

    def forget(self) -> None:
        self._holding = threading.RLock()
        self._held = []
        if self._journal is not None:
            self._journal.forget()
        else:
            self.keeps = False
