"""The journal: append-only lines, written before `log` returns; the source of truth of a run.

Appending takes no lock: one `write(2)` per record on an O_APPEND descriptor, so threads, signal handlers and `__del__`
may write. A file is never truncated: after a short or failed write the record waits in a bounded tail, and the
background thread writes it again after a newline; readers skip the torn line. The number of the descriptor never
changes while the journal is open (the next segment is dup2-ed over it), so a write in flight can never hit another
file.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from pathlib import Path

import msgspec

from chiplog.core import messages, records
from chiplog.core.engine.attachments import make_dir
from chiplog.core.records import Record, Step
from chiplog.store import layout
from chiplog.store.journal.file_systems import SLOW, waited_for_disk
from chiplog.store.journal.lines import line_of
from chiplog.store.layout import Segment

SEGMENT_BYTES = 64 << 20
TAIL_BYTES = 32 << 20  # what may wait in memory while the disk is slow, full or remote
TAIL_PLACES = TAIL_BYTES >> 10
STALLED = 1.0  # s without a completed write, after which callers no longer wait for the disk
BEAT = 5.0  # s between touches of the live segment and between fdatasyncs
RELAXED = 0.25  # s between background writes in `relaxed` mode
RETRY = 0.5  # s between retries while the disk refuses
PERSISTENT = 1.0  # s to retry at close, in case the error was transient
RESERVE_BYTES = 16 << 10


class Journal:
    """The journal of one rank in one attempt. `append` never raises, and never waits twice for a slow disk."""

    keeps = True

    def __init__(self, run: Path, segment: Segment, fd: int, *, durability: str, wake: Callable[[], None]) -> None:
        self.run = run
        self.durability = durability
        self.segment = segment
        self._fd = fd
        self._wake = wake
        self._sync_each = durability == "disk"
        self._direct = durability != "relaxed"  # the caller writes; otherwise the background thread does
        if not self._direct:
            self.append = self._defer  # type: ignore[method-assign,assignment]
        self._tail: deque[Record | bytes] = deque()
        self._room = TAIL_PLACES
        self._under_way = 0  # records being written
        self._draining = threading.RLock()  # never taken by `append`
        self.at_disk = False  # the background thread is
        self._turning = threading.RLock()  # from one segment to the next
        self._counting = threading.RLock()
        self._dropped = 0
        self._failing: str | None = None
        self._told = False
        self._took = 0.0  # when a write last completed while records waited
        self._writing = 0.0  # when the background thread started to write; 0 if it is not writing
        self._behind_newline = False  # the file may end in a torn line
        self._beaten = time.monotonic()
        self._dirty = False
        self._closed = False
        self.settled = False  # closed, and finished with the disk

    def append(self, record: Record) -> None:
        """Record one record: on disk when this returns, or in the tail while the disk is slow, full or relaxed."""
        if self._direct:
            self._put(record)
        else:
            self._defer(record)

    def _put(self, record: Record) -> None:
        """Write a record on the caller's thread; hand over to the background thread if the disk refuses or is slow."""
        line = line_of(record)
        before = time.monotonic_ns()
        try:
            written = self._write_through(line) if self._sync_each else os.write(self._fd, line)
        except OSError as error:
            self._hand_over(line, _reason(error))
            return
        self._dirty = True
        if written != len(line):
            self._behind_newline = True
            self._hand_over(_left_of(line, written), "the disk accepted only part of a record")
        elif time.monotonic_ns() - before > SLOW and not self._sync_each and waited_for_disk(self._fd, before):
            self._direct, self._took = False, time.monotonic()
            self._wake()

    def _write_through(self, data: bytes) -> int:
        try:
            fd = os.dup(self._fd)  # by the time of the sync, the next segment may have this number
        except OSError:  # no descriptor left: the sync may come one segment late
            written = os.write(self._fd, data)
            self._sync(self._fd)
            return written
        try:
            written = os.write(fd, data)
            self._sync(fd)
            return written
        finally:
            _close(fd)

    @property
    def dropped(self) -> int:
        """Records that did not fit in the tail and are lost."""
        return self._dropped

    @property
    def waiting(self) -> int:
        return len(self._tail) + self._under_way

    @property
    def trouble(self) -> str | None:
        """Why the disk currently refuses records, if it does."""
        return self._failing

    @property
    def mine(self) -> bool:
        """Whether this thread is already writing the tail: a signal handler or a finalizer interrupted it."""
        return bool(self._draining._is_owned())  # type: ignore[attr-defined]  # as threading.Condition asks

    def tend(self) -> float:
        """Called by the background thread: write the tail, touch and sync the segment, start the next one."""
        self.at_disk = True
        try:
            self._drain()
            self._look()
            now = time.monotonic()
            if now - self._beaten >= BEAT:
                self._beaten = now
                self._beat()
        finally:
            self.at_disk = False
        if self._failing:
            return RETRY
        return 1.0 if self._direct else RELAXED

    def flush(self, *, fsync: bool = False, timeout: float = 30.0) -> bool:
        """True once every record so far has reached the operating system, or with `fsync` the disk."""
        if not self._drain(timeout):
            return False
        if fsync:
            try:
                with self._turning:  # the previous segment is on disk then
                    os.fsync(self._fd)
            except OSError as error:
                self._not_synced(error)
                return False
        return not self._dropped

    def close(self, last: Record | None = None, timeout: float = 5.0) -> None:
        """Write the tail and the last record.

        On a full disk, the last record and the newest of the tail take the space of the reserve; the others are
        dropped, and the last record counts them. The descriptor stays open until the journal is garbage-collected:
        another thread may be about to write.
        """
        if self._closed:
            return
        self._closed, self._room = True, 0
        self._drain_at_last(timeout)
        try:
            layout.reserve(self.run, self.segment.rank).unlink(missing_ok=True)
        except OSError:
            pass
        self._give_up(all_but=RESERVE_BYTES // 2)
        if last is not None:
            if self._dropped and isinstance(last, records.Finish):
                last = msgspec.structs.replace(last, missing=self._dropped)
            self._tail.appendleft(line_of(last))  # first, so that it fits; `seq` keeps the order
        self._drain_at_last(timeout)
        self._give_up()
        try:
            os.fdatasync(self._fd)
        except OSError:
            pass
        self.settled = True

    def forget(self) -> None:
        """In a forked child: release the parent's file."""
        self._closed, self._room = True, 0
        self._tail.clear()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        try:
            if self._fd >= 0:
                os.close(self._fd)
        except Exception:  # interpreter teardown, or __init__ never ran
            pass

    def _defer(self, item: Record | bytes) -> None:
        tail = self._tail
        if len(tail) >= self._room:
            self._no_room(item)
            return
        tail.append(item)
        if (type(item) is not Step or len(item.metrics) > 10) and (places := _weigh(item) >> 10):
            tail.extend([b""] * places)  # a large record takes one slot per KiB

    def _no_room(self, item: Record | bytes) -> None:
        """Handle a full tail.

        With many busy threads the background thread gets few turns even if the disk is fast, so the caller writes. It
        drops the record instead if the disk is remote or refuses, or if a background write has been stuck for a second
        and no other write completed.
        """
        alive = self.durability != "relaxed" and not self._failing
        if alive and self._writing:
            alive = time.monotonic() - max(self._writing, self._took) < STALLED
        if alive and not self._closed and not isinstance(item, bytes):
            self._wake()
            before = time.monotonic()
            self._put(item)
            if not self._failing and time.monotonic() - before < STALLED:
                self._took = time.monotonic()
        else:
            self._count_dropped(item != b"" and not self._closed)

    def _give_up(self, all_but: int = 0) -> None:
        """Drop and count what waits, except the newest `all_but` bytes."""
        left: deque[Record | bytes] = deque()
        while self._tail:
            item = self._tail.pop()
            line = item if isinstance(item, bytes) else line_of(item)
            all_but -= len(line)
            if all_but >= 0:
                left.appendleft(line)
            elif line:
                self._count_dropped(1)
        self._tail.extend(left)

    def _count_dropped(self, records: int) -> None:
        with self._counting:
            self._dropped += records

    def _hand_over(self, line: bytes, reason: str) -> None:
        self._direct = False
        self._failing = self._failing or reason
        self._defer(line)
        self._wake()

    def _drain(self, timeout: float = 30.0) -> bool:
        """Write what waits; true if nothing is left. Callers write directly again once the disk is fast."""
        if not self._draining.acquire(timeout=timeout):
            return False
        try:
            quick = self._direct  # without a write we learn nothing about the disk
            chunk = 64 << 10  # small at first: it tests whether callers may write directly again
            while self._tail:
                lines = self._take(chunk)
                before = time.monotonic_ns()
                self._under_way, self._writing = len(lines), time.monotonic()
                left, reason = self._write(lines)
                self._under_way, self._writing = 0, 0.0
                if left:
                    self._tail.extendleft(reversed(left))
                    self._complain(reason)
                    return False
                chunk = 1 << 20
                self._took = time.monotonic()
                quick = time.monotonic_ns() - before < SLOW or not waited_for_disk(self._fd, before)
                self._hand_back(quick)
            if self._told:
                lost = f"; {self._dropped:,} records did not fit in memory and are lost" if self._dropped else ""
                messages.say(f"{self._path} can be written again{lost}")
            self._failing, self._told = None, False
            self._hand_back(quick)
            return True
        finally:
            self._draining.release()

    def _drain_at_last(self, timeout: float) -> None:
        """Like `_drain`, with retries, because an error may be transient."""
        until = time.monotonic() + min(timeout, PERSISTENT)
        while not self._drain(timeout) and self._failing and time.monotonic() < until:
            time.sleep(0.1)

    def _hand_back(self, quick: bool) -> None:
        """Let callers write directly again after one fast write, even if some records still wait."""
        self._direct = quick and self.durability != "relaxed" and not self._closed

    def _take(self, limit: int) -> list[bytes]:
        """About `limit` bytes of lines from the tail."""
        lines: list[bytes] = []
        size = 0
        while size < limit:
            try:
                item = self._tail.popleft()
                line = item if isinstance(item, bytes) else line_of(item)
            except IndexError:
                break
            except Exception as error:
                messages.once("unsayable", f"a record could not be written and is lost: {error!r}")
                self._count_dropped(1)
                continue
            lines.append(line)
            size += len(line)
        return lines

    def _write(self, lines: list[bytes]) -> tuple[list[bytes], str]:
        """Write lines in one call; return those that are not completely on disk, and why."""
        data = b"".join(lines)
        if self._behind_newline:
            data = b"\n" + data
        try:
            written = self._write_through(data) if self._sync_each else os.write(self._fd, data)
        except OSError as error:
            return lines, _reason(error)
        self._dirty = True
        if written == len(data):
            self._behind_newline = False
            return [], ""
        written -= self._behind_newline
        self._behind_newline = True
        for index, line in enumerate(lines):
            if written < len(line):
                return [_left_of(line, written), *lines[index + 1 :]], "no space for a whole record"
            written -= len(line)
        return [], ""

    def _complain(self, reason: str) -> None:
        self._failing = self._failing or reason
        if not self._told:
            self._told = True
            messages.say(
                f"cannot write {self._path}: {self._failing}. Training continues; records wait in memory "
                f"(at most {TAIL_BYTES >> 20} MiB) and are written once the disk allows it"
            )

    @property
    def _path(self) -> Path:
        return self.run / layout.JOURNAL / self.segment.filename

    def _look(self) -> None:
        """Restore a segment that was deleted; start the next one when this one is full."""
        try:
            status = os.fstat(self._fd)
            if status.st_nlink == 0:
                self._reopen(self.segment, keep=status.st_size)
            elif status.st_size >= SEGMENT_BYTES:
                self._reopen(self.segment._replace(number=self.segment.number + 1))
        except OSError as error:
            messages.once(f"segment {self._path}", f"{self._path}: {_reason(error)}; chiplog keeps trying")

    def _beat(self) -> None:
        try:
            os.utime(self._fd)
        except OSError as error:
            messages.once(f"beat {self.run}", f"{self._path} cannot be touched: {_reason(error)}; chiplog keeps trying")
        if self._dirty:
            self._sync(self._fd)

    def _sync(self, fd: int) -> None:
        """Sync what was written. A failure is not followed by another write, which would duplicate records."""
        self._dirty = False
        try:
            os.fdatasync(fd)
        except OSError as error:
            self._dirty = True
            self._not_synced(error)

    def _not_synced(self, error: OSError) -> None:
        messages.once(
            f"sync {self.run}",
            f"{self._path} cannot be synced: {_reason(error)}. Training continues; until a sync succeeds, "
            "a power failure may lose records",
        )

    def _reopen(self, segment: Segment, keep: int = 0) -> None:
        """Continue in another file under the same descriptor; copies `keep` bytes of a deleted one to it."""
        if keep:
            messages.once(
                f"deleted {self._path}",
                f"{self._path} was deleted during the run; chiplog writes it again",
            )
            make_dir(self.run / layout.JOURNAL)
        new, old = create(self.run, segment), -1
        try:
            old = os.dup(self._fd)
            copied = _copy(old, new, 0) if keep else 0
            with self._turning:
                os.dup2(new, self._fd, inheritable=False)
                self.segment = segment
                time.sleep(0.01)  # for a write in progress in the old file
                if keep:
                    _copy(old, new, copied)
                self._sync(old)  # no new write can start in it now
                self._dirty = True
        except OSError:
            if not os.path.sameopenfile(new, self._fd):
                (self.run / layout.JOURNAL / segment.filename).unlink()  # so that it can be tried again
            raise
        finally:
            _close(new)
            _close(old)


def create(run: Path, segment: Segment) -> int:
    """Create a segment; fails if it exists. Readable too, so that a deleted one can be restored."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    return os.open(run / layout.JOURNAL / segment.filename, flags, 0o600)


def _close(fd: int) -> None:
    """Close a descriptor. It is closed even if this fails, and its writes have been synced."""
    try:
        os.close(fd)
    except OSError:
        pass


def _copy(source: int, target: int, offset: int) -> int:
    """Append a file's bytes from `offset` to another file; return where they end."""
    while data := os.pread(source, 1 << 20, offset):
        offset += os.write(target, data)
    return offset


def open_attempt(run: Path, rank: int) -> tuple[Segment, int]:
    """Create the first segment of this rank's next attempt; two writers that start at once get one each."""
    run.parent.mkdir(parents=True, exist_ok=True)  # the user named it, so it follows the umask
    make_dir(run / layout.JOURNAL)
    taken = [segment.attempt for segment in layout.segments(run) if segment.rank == rank]
    for attempt in count(max(taken, default=0) + 1):
        segment = Segment(rank, attempt, 0)
        try:
            fd = create(run, segment)
        except FileExistsError:
            continue
        _reserve(layout.reserve(run, rank))
        return segment, fd
    raise AssertionError("unreachable")


def _reserve(path: Path) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            os.write(fd, b"\0" * RESERVE_BYTES)
        finally:
            os.close(fd)
    except OSError:
        pass  # the first record will report a full disk


def _left_of(line: bytes, written: int) -> bytes:
    """What is left to write of a line: all of it, unless only the newline is missing."""
    return line if written < len(line) - 1 else b""


def _weigh(item: Record | bytes) -> int:
    """About how much memory a record takes."""
    if isinstance(item, bytes):
        return len(item)
    if isinstance(item, Step):
        return 100 * len(item.metrics)
    return len(line_of(item))


def _reason(error: OSError) -> str:
    return error.strerror or errno.errorcode.get(error.errno or 0, repr(error))
