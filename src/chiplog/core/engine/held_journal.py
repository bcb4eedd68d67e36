"""The journal of a rank that may have to keep the run: held in memory until that is decided."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from chiplog.core.protocols import JournalLike
from chiplog.core.records import Attempt, Eval, File, Histogram, Matrix, Record, Step, Table, Text

# What somebody has logged; other records (spans, samples of probes, the clock) come by themselves.
LOGGED = frozenset((Step, Eval, Table, Histogram, Matrix, Text, File))

FEW = 1000  # records that are held of what nobody has logged


def is_logged(record: Record) -> bool:
    """Whether somebody has logged this, and it is not a statistic across ranks."""
    return type(record) in LOGGED and not getattr(record, "across", False)


class HeldJournal:
    """Holds what is written until `open` gives it a journal or `release` lets it go.

    `first` is called, once, when something has been logged.
    """

    def __init__(self, first: Callable[[], None]) -> None:
        self._first: Callable[[], None] | None = first
        self._pages: JournalLike | None = None
        self._held: list[Record] = []
        self._holding = threading.RLock()
        self.keeps = True  # False when it has been let go
        self.tracing: tuple[bool, int | None] = (True, None)  # whether spans are wanted, and of every how many steps
        self._lost = 0
        self._trouble: str | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def undecided(self) -> bool:
        return self.keeps and self._pages is None

    @property
    def logged(self) -> bool:
        """Whether something has been logged."""
        return self._first is None

    def append(self, record: Record) -> None:
        if self._pages is not None:
            self._pages.append(record)
        elif self.keeps:
            self._hold(record)

    def _hold(self, record: Record) -> None:
        with self._holding:
            if self._pages is not None:
                self._pages.append(record)
            elif self.keeps:
                self._held.append(record)
                if len(self._held) > FEW and not self.logged:  # what came by itself, perhaps for days
                    del self._held[1 : FEW // 2]
        if is_logged(record):
            self.notice()

    def notice(self) -> None:
        """Something has been logged, a record or what will be one."""
        with self._holding:
            first, self._first = self._first, None
        if first is not None:
            first()

    def open(self, pages: JournalLike, attempt: int, durability: str) -> None:
        """Write what is held to a journal, and from here on everything; the first record says which attempt it is."""
        with self._holding:
            for record in self._held:
                if type(record) is Attempt:
                    pages.append(msgspec.structs.replace(record, attempt=attempt, durability=durability))
                else:
                    pages.append(record)
            self._held = []
            self._pages = pages

    def release(self) -> None:
        """Keep nothing: another rank keeps the run."""
        with self._holding:
            self.keeps = self._pages is not None
            self._held = []

    def lose(self, why: str) -> None:
        """What is held cannot be kept, and that is counted."""
        with self._holding:
            self._lost, self._trouble = sum(map(is_logged, self._held)), why
        self.release()

    # -- as a journal ----------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> int:
        return self._lost + (self._pages.dropped if self._pages is not None else 0)

    @property
    def waiting(self) -> int:
        return self._pages.waiting if self._pages is not None else len(self._held)

    @property
    def trouble(self) -> str | None:
        return self._pages.trouble if self._pages is not None else self._trouble

    @property
    def at_disk(self) -> bool:
        return self._pages is not None and self._pages.at_disk

    @property
    def mine(self) -> bool:
        return self._pages is not None and self._pages.mine

    def flush(self, *, fsync: bool = False, timeout: float = 30.0) -> bool:
        return self._pages.flush(fsync=fsync, timeout=timeout) if self._pages is not None else not self._held

    def close(self, last: Record | None = None, timeout: float = 5.0) -> None:
        if self._pages is not None:
            self._pages.close(last, timeout)

    def forget(self) -> None:
        self._holding = threading.RLock()
        self._held = []
        if self._pages is not None:
            self._pages.forget()
        else:
            self.keeps = False
