"""The recorder: gives each record its number and time, appends it to the journal, and reports what fails.

Everything inside a run that records something is given this one object.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Any

from chiplog.core import messages
from chiplog.core.clock import RunClock
from chiplog.core.engine.held_journal import HeldJournal
from chiplog.core.protocols import JournalLike
from chiplog.core.records import Record, Row

Listener = Callable[[Record], object]


class Recorder:
    """Of one run. `append`, `seq` and `offset` are for the hot path; everybody else calls `write`."""

    def __init__(self, run_id: str, journal: JournalLike | None, clock: RunClock, *, strict: bool = False) -> None:
        self.journal = journal
        self.clock = clock
        self.offset = clock.offset
        self.seq = count()
        self.inert = journal is None  # whether nothing is recorded: disabled, a forked copy, or finished
        self.append: Callable[[Record], object] = _discard if journal is None else journal.append
        self._run_id, self._strict = run_id, strict
        self._reason = ""  # why it is inert, where that is worth a message
        self._listeners: tuple[Listener, ...] = ()

    def write(self, kind: type[Record], /, **fields: Any) -> Record | None:
        """Append a record and return it; None where nothing is recorded."""
        if self.inert:
            self.refuse()
            return None
        record = kind(next(self.seq), self.clock.now(), **fields)
        self.append(record)
        return record

    def failed(self, what: str, error: Exception) -> Row:
        """Report once that something of ours failed; in a strict run, raise it."""
        if self._strict:
            raise error
        messages.once(f"{what} {self._run_id} {type(error).__name__}", f"{what}: {error}; training goes on")
        return {}

    def refuse(self) -> None:
        """Something came that is not recorded; say so once, if there is a reason to."""
        if self._reason:
            messages.once(
                f"inert {self._run_id} {os.getpid()}",
                f"run {self._run_id}: {self._reason}; what is logged here is not kept",
            )

    @property
    def keeps(self) -> bool:
        """Whether what is written is kept, or may still be."""
        return not self.inert and self.journal is not None and self.journal.keeps

    @property
    def held(self) -> bool:
        """Whether it is not clear yet if this rank keeps the run."""
        return isinstance(self.journal, HeldJournal) and self.journal.undecided

    def notice(self) -> None:
        """Something was logged that becomes a record later."""
        if isinstance(self.journal, HeldJournal):
            self.journal.notice()

    def stop(self, reason: str) -> None:
        """Record nothing from here on."""
        self.inert, self._reason = True, reason
        self.append = self._refuse_record

    def listen(self, call: Listener) -> None:
        """Call a function with every record from now on, after it was appended, on the thread that wrote it."""
        self._listeners += (call,)
        if not self.inert:
            self.append = self._append_and_call

    def forget(self, call: Listener) -> None:
        """Stop calling a listener."""
        self._listeners = tuple(one for one in self._listeners if one is not call)
        if not self._listeners and self.journal is not None and not self.inert:
            self.append = self.journal.append

    def _refuse_record(self, _: Record) -> None:
        self.refuse()

    def _append_and_call(self, record: Record) -> None:
        if self.journal is not None:
            self.journal.append(record)
        for call in self._listeners:
            try:
                call(record)
            except Exception as error:
                self.failed("on_record", error)


def _discard(_: Record) -> None:
    pass
