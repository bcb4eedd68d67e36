"""The journal: append-only lines, written before `log` returns; the source of truth of a run.

Appending takes no lock: one `write(2)` per record on an O_APPEND descriptor, so threads, signal handlers and `__del__`
may write. After a short or failed write the record waits in a bounded backlog, and the background thread writes it
again after a newline; readers skip the torn line.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from chiplog.core import messages, records
from chiplog.core.background.thread import IdlePause
from chiplog.core.records import Record
from chiplog.store.journal.backlog import BACKLOG_BYTES, Backlog
from chiplog.store.journal.directory_identity import DirectoryIdentity
from chiplog.store.journal.file_systems import SLOW, waited_for_disk
from chiplog.store.journal.lines import line_of
from chiplog.store.journal.segment_file import PARTIAL, RESERVE_BYTES, SegmentFile, reason, unwritten
from chiplog.store.layout import Segment

STALLED = 1.0  # s without a completed write, after which callers no longer wait for the disk
RELAXED = 0.25  # s between background writes in `relaxed` mode
MAINTAIN = 1.0  # s between looks at the segment otherwise
RETRY = 0.5  # s between retries while the disk refuses
PERSISTENT = 1.0  # s to retry at close, in case the error was transient


class Journal:
    """The journal of one rank in one attempt. `append` never raises, and never waits twice for a slow disk."""

    keeps = True

    def __init__(self, run: Path, segment: Segment, fd: int, *, durability: str, wake: Callable[[], None]) -> None:
        self.run = run
        self.durability = durability
        self.at_disk = False  # the background thread is
        self.settled = False  # closed, and finished with the disk
        self._wake = wake
        self._sync_each = durability == "disk"
        self._direct = durability != "relaxed"  # the caller writes; otherwise the background thread does
        self._file = SegmentFile(run, segment, fd, sync_each=self._sync_each)
        self._backlog = Backlog()
        if not self._direct:
            self.append = self._backlog.append  # type: ignore[method-assign,assignment]
        self._draining = threading.RLock()  # never taken by `append`
        self._under_way = 0  # records being written by the background thread
        self._writing = 0.0  # when the background thread started to write; 0 if it is not writing
        self._last_write = 0.0  # when a write last completed while records waited
        self._failing: str | None = None
        self._refusal: str | None = None  # what kept the disk from taking everything at the end
        self._reported = False
        self._closed = False

    def append(self, record: Record) -> None:
        """Record one record: on disk when this returns, or in the backlog while the disk is slow, full or relaxed."""
        if not self._direct and not (self._backlog.full and self._may_write()):
            self._backlog.append(record)
            return
        line, file = line_of(record), self._file
        before = time.monotonic_ns()
        try:
            written = file.write(line) if self._sync_each else os.write(file.fd, line)
        except OSError as error:
            self._hand_over(line, reason(error))
            return
        file.dirty = True
        if written != len(line):
            file.torn, file.unterminated = True, written == len(line) - 1
            self._hand_over(unwritten(line, written), PARTIAL)
        elif time.monotonic_ns() - before > SLOW and not self._sync_each and waited_for_disk(file.fd, before):
            self._direct, self._last_write = False, time.monotonic()
            self._wake()
        elif not self._direct:
            self._last_write = time.monotonic()

    def count_lost(self) -> None:
        self._backlog.drop()

    @property
    def segment(self) -> Segment:
        return self._file.segment

    @property
    def own_directory(self) -> DirectoryIdentity:
        return self._file.own_directory

    @property
    def dropped(self) -> int:
        """Records that did not fit in the backlog and are lost."""
        return self._backlog.dropped

    @property
    def waiting(self) -> int:
        return len(self._backlog) + self._under_way

    @property
    def trouble(self) -> str | None:
        """Why the disk refuses records, or did when some had to be dropped at the end."""
        return self._failing or self._refusal

    @property
    def mine(self) -> bool:
        """Whether this thread is already writing the backlog: a signal handler or a finalizer interrupted it."""
        return bool(self._draining._is_owned())  # type: ignore[attr-defined]  # as threading.Condition asks

    def maintain(self) -> float:
        """Called by the background thread: write the backlog, touch and sync the segment, start the next one."""
        self.at_disk = True
        try:
            self._drain()
            grown = self._file.maintain()
        finally:
            self.at_disk = False
        if self._failing:
            return RETRY
        if not self._direct:
            return RELAXED
        return MAINTAIN if grown else IdlePause(MAINTAIN)

    def flush(self, *, fsync: bool = False, timeout: float = 30.0) -> bool:
        """True once every record so far has reached the operating system, or with `fsync` the disk."""
        if not self._drain(timeout) or (fsync and not self._file.fsync()):
            return False
        return not self.dropped

    def close(self, last: Record | None = None, timeout: float = 5.0) -> None:
        """Write the backlog and the last record.

        On a full disk, the last record and the newest of the backlog take the space of the reserve; the others are
        dropped, and the last record counts them.
        """
        if self._closed:
            return
        self._closed = True
        self._backlog.close()
        self._drain_with_retries(timeout)
        self._file.release_reserve()
        before = self.dropped
        self._backlog.drop_all_but(RESERVE_BYTES // 2)
        self._refusal = self._failing if self.dropped > before else None
        if last is not None:
            if self.dropped and isinstance(last, records.Finish):
                last = msgspec.structs.replace(last, missing=self.dropped)
            self._backlog.push_front([line_of(last)])  # first, so that it fits; `seq` keeps the order
        self._drain_with_retries(timeout)
        self._backlog.drop_all_but(0)
        if self._file.unterminated:
            self._backlog.drop()
        self._file.finish()
        self.settled = True

    def forget(self) -> None:
        """In a forked child: release the parent's file."""
        self._closed = True
        self._backlog.close()
        self._backlog.clear()
        self._file.forget()

    def _may_write(self) -> bool:
        """Whether a caller writes although others wait in a full backlog.

        With many busy threads the background thread gets few turns even if the disk is fast, so the caller writes. The
        record is dropped instead if the disk is remote or refuses, or if a background write has been stuck for a second
        and no other write completed.
        """
        if self._closed or self._failing or self.durability == "relaxed":
            return False
        if self._writing and time.monotonic() - max(self._writing, self._last_write) >= STALLED:
            return False
        self._wake()
        return True

    def _hand_over(self, line: bytes, why: str) -> None:
        """Leave a line, and those of the next callers, to the background thread."""
        self._direct = False
        self._failing = self._failing or why
        self._backlog.append(line)
        self._wake()

    def _hand_back(self, fast: bool) -> None:
        """Let callers write directly again after one fast write, even if some records still wait."""
        self._direct = fast and self.durability != "relaxed" and not self._closed

    def _drain(self, timeout: float = 30.0) -> bool:
        """Write what waits; true if nothing is left. Callers write directly again once the disk is fast."""
        if not self._draining.acquire(timeout=timeout):
            return False
        try:
            fast = self._direct  # without a write we learn nothing about the disk
            chunk = 64 << 10  # small at first: it tests whether callers may write directly again
            while self._backlog:
                lines = self._backlog.take(chunk)
                before = time.monotonic_ns()
                self._under_way, self._writing = len(lines), time.monotonic()
                left, why = self._file.write_lines(lines)
                if left and why == PARTIAL:
                    left, why = self._file.write_lines(left)
                self._under_way, self._writing = 0, 0.0
                if left:
                    self._backlog.push_front(left)
                    self._report_failure(why)
                    return False
                chunk = 1 << 20
                self._last_write = time.monotonic()
                fast = time.monotonic_ns() - before < SLOW or not waited_for_disk(self._file.fd, before)
                self._hand_back(fast)
            if self._reported and not self._refusal:  # otherwise only the reserve could be written
                lost = f"; {self.dropped:,} records did not fit in memory and are lost" if self.dropped else ""
                messages.say(f"{self._file.path} can be written again{lost}")
            self._failing, self._reported = None, False
            self._hand_back(fast)
            return True
        finally:
            self._draining.release()

    def _drain_with_retries(self, timeout: float) -> None:
        """Like `_drain`, with retries, because an error may be transient."""
        until = time.monotonic() + min(timeout, PERSISTENT)
        while not self._drain(timeout) and self._failing and time.monotonic() < until:
            time.sleep(0.1)

    def _report_failure(self, why: str) -> None:
        if self._failing in (None, PARTIAL):
            self._failing = why
        if not self._reported:
            self._reported = True
            messages.say(
                f"cannot write {self._file.path}: {self._failing}. Training continues; records wait in memory "
                f"(at most {BACKLOG_BYTES >> 20} MiB) and are written once the disk allows it"
            )
