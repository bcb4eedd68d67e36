"""The recorder: gives each record its number and time, appends it to the journal, and reports failures.

Everything inside a run that records something shares this one object.
"""

from __future__ import annotations

import atexit
import os
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from types import TracebackType
from typing import TypeVar

from chiplog.core import messages
from chiplog.core.background.forks import SharedFlag
from chiplog.core.clock import RunClock
from chiplog.core.errors import ChiplogError
from chiplog.core.journals.memory_journal import MemoryJournal, is_logged
from chiplog.core.protocols import JournalLike, Unkept
from chiplog.core.records import Plain, Record, Row
from chiplog.core.values import text

Listener = Callable[[Record], object]
R = TypeVar("R", bound=Record)


class Recorder:
    """The recorder of one run. `append`, `seq` and `offset` are for the hot path; everything else calls `write`."""

    def __init__(self, run_id: str, journal: JournalLike | None, clock: RunClock, *, strict: bool = False) -> None:
        self.journal = journal
        self.clock = clock
        self.offset = clock.offset
        self.seq = count()
        self.inert = journal is None  # whether nothing is recorded: disabled, a forked copy, or finished
        self.append: Callable[[Record], object] = _discard if journal is None else journal.append
        self._run_id, self._strict = run_id, strict
        self._reason = self._fix = ""  # why it is inert, and what to do about it, if that is worth a message
        self.repeated: Counter[str] = Counter()  # problems after the first of their kind, which was reported
        self._listeners: tuple[Listener, ...] = ()
        self._unkept: Unkept | None = None  # counts what is refused
        self._told: SharedFlag | None = None
        self._refused: RefusedRecords | None = None  # the same, if it is reported

    def write(self, kind: type[R], /, **fields: Plain) -> R | None:
        """Append a record and return it; None if nothing is recorded."""
        if self.inert:
            self.refuse()
            if self._unkept is not None:
                self._unkept.note(kind(0, 0, **fields))
            return None
        record = kind(next(self.seq), self.clock.now(), **fields)
        self.append(record)
        return record

    def failed(self, what: str, error: Exception) -> Row:
        """Report an error of our own once; in a strict run, raise it."""
        if self._strict:
            raise error
        if what == "log" and isinstance(error, MemoryError) and self.journal is not None:
            self.journal.count_lost()
        why = text.reason(error) if isinstance(error, ChiplogError) else text.words(error)  # ours is a sentence
        kind = type(error).__name__
        self.report(f"{what} {self._run_id} {kind}", f"{what}: {why}; training continues", f"{what} ({kind})")
        return {}

    def report(self, key: str, words: str, kind: str) -> None:
        """Report a problem the first time for this key, and count it under its kind every other time."""
        if messages.first(key):
            messages.say(words)
        else:
            self.repeated[kind] += 1

    def guard(self, what: str) -> Guard:
        """A context whose exceptions are passed to `failed`."""
        return Guard(self, what)

    def refuse(self) -> None:
        """Report once that something is not recorded, if there is a reason to give, and how much at the exit."""
        if self._reason:
            if self._refused is None or self._refused.process != os.getpid():
                self._refused = RefusedRecords(self._run_id, self._reason)
            self._refused.add()
            if messages.first(f"inert {self._run_id} {os.getpid()}") and (self._told is None or self._told.first()):
                messages.say(f"run {self._run_id}: {self._reason}; what is logged here is not kept{self._fix}")

    def refuse_row(self, metrics: Mapping[str, object]) -> None:
        """Refuse a row whose values have not been read."""
        self.refuse()
        if self._unkept is not None:
            self._unkept.note_row(metrics)

    @property
    def keeps(self) -> bool:
        """Whether records are kept, or may still be."""
        return not self.inert and self.journal is not None and self.journal.keeps

    @property
    def held(self) -> bool:
        """Whether it is still open if this rank keeps the run."""
        return isinstance(self.journal, MemoryJournal) and self.journal.undecided

    def notice(self) -> None:
        """Note that something was logged that becomes a record later."""
        if isinstance(self.journal, MemoryJournal):
            self.journal.notice()

    def stop(self, reason: str, fix: str = "", unkept: Unkept | None = None, told: SharedFlag | None = None) -> None:
        """Record nothing from now on; what is refused is reported with the reason and, if there is one, a fix, or it is
        counted. With `told`, one process of all that share it reports."""
        self._told = told
        self.inert, self._reason, self._fix, self._unkept = True, reason, f"; {fix}" if fix else "", unkept
        self.append = self._refuse_record if unkept is None else unkept.note

    def listen(self, call: Listener) -> None:
        """Call a function with every record from now on, after it was appended, on the thread that wrote it."""
        self._listeners += (call,)
        if not self.inert:
            self.append = self._append_and_call

    def at_first_row(self, call: Callable[[], None]) -> None:
        """Call a function once, after something has been logged."""
        calls = [call]

        def first(record: Record) -> None:
            if calls and is_logged(record):
                self.stop_listening(first)
                calls.pop()()

        self.listen(first)

    def stop_listening(self, call: Listener) -> None:
        """Stop calling a listener."""
        self._listeners = tuple(listener for listener in self._listeners if listener is not call)
        if not self._listeners and self.journal is not None and not self.inert:
            self.append = self.journal.append

    def _refuse_record(self, _: Record) -> None:
        self.refuse()

    def _append_and_call(self, record: Record) -> None:
        if self.journal is not None:
            self.journal.append(record)
        for call in self._listeners:
            with self.guard("on_record"):
                call(record)


class RefusedRecords:
    """Counts what is refused in this process; its exit reports how much that was."""

    def __init__(self, run_id: str, reason: str) -> None:
        self.process = os.getpid()
        self._run_id, self._reason = run_id, reason
        self._count = count()  # atomic, unlike adding to an integer
        atexit.register(self.report)

    def add(self) -> None:
        next(self._count)

    def report(self) -> None:
        """Report the number, unless the first message was about all there is."""
        if os.getpid() == self.process and (total := next(self._count)) > 1:
            messages.say(f"run {self._run_id}: {total:,} records were not kept: {self._reason}")


class Guard:
    """Passes an exception to the recorder instead of the caller."""

    __slots__ = ("_recorder", "_what")

    def __init__(self, recorder: Recorder, what: str) -> None:
        self._recorder, self._what = recorder, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _k: type[BaseException] | None, error: BaseException | None, _t: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        self._recorder.failed(self._what, error)
        return True


def _discard(_: Record) -> None:
    pass
