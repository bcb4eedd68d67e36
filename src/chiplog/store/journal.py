"""The journal: append-only lines, written before `log` returns; the truth of a run.

No lock on the way in: one `write(2)` on an O_APPEND descriptor a record, so threads, signal handlers and `__del__` may
write. A file is never truncated: after a short or failed write the record is kept in a bounded tail and written again
behind a newline by the keeper's thread; the reader skips the torn line. The descriptor's number never changes while the
journal lives (the next segment is dup2-ed over it), so a writer in flight can never hit another file.
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

from chiplog.core import notes, records
from chiplog.core.files import make_dir
from chiplog.core.records import Record, Step
from chiplog.store import layout
from chiplog.store.disks import SLOW, waited_for_disk
from chiplog.store.layout import Segment
from chiplog.store.lines import line_of

SEGMENT_BYTES = 64 << 20
TAIL_BYTES = 32 << 20  # what may wait in memory while the disk is slow, full or far away
TAIL_PLACES = TAIL_BYTES >> 10
STALLED = 1.0  # s in which a disk has taken nothing: then nobody waits for it
BEAT = 5.0  # s between touches of the live segment and between fdatasyncs
RELAXED = 0.25  # s between writes of the keeper in `relaxed` mode
RETRY = 0.5  # s between attempts while the disk refuses
PERSISTENT = 1.0  # s for which a disk is asked again before the end, lest it refused for a moment only
RESERVE_BYTES = 16 << 10


class Journal:
    """Where a run's records go, of one rank in one attempt. `append` never raises, nor waits twice for a slow disk."""

    def __init__(self, run: Path, segment: Segment, fd: int, *, durability: str, wake: Callable[[], None]) -> None:
        self.run = run
        self.durability = durability
        self.segment = segment
        self._fd = fd
        self._wake = wake
        self._sync_each = durability == "disk"
        self._direct = durability != "relaxed"  # the caller writes; otherwise the keeper does
        if not self._direct:
            self.append = self._defer  # type: ignore[method-assign,assignment]
        self._tail: deque[Record | bytes] = deque()
        self._room = TAIL_PLACES
        self._under_way = 0  # records that are just being written
        self._draining = threading.RLock()  # never taken by `append`
        self.at_disk = False  # the keeper is
        self._turning = threading.RLock()  # from one segment to the next
        self._counting = threading.RLock()
        self._dropped = 0
        self._failing: str | None = None
        self._told = False
        self._took = 0.0  # when the disk last took something while records waited
        self._writing = 0.0  # since when the keeper has been writing; 0 when it is not
        self._behind_newline = False  # the file may end in a torn line
        self._beaten = time.monotonic()
        self._dirty = False
        self._closed = False
        self.settled = False  # closed, and done with the disk

    def append(self, record: Record) -> None:
        """Keep a record: on disk when this returns, or in the tail while the disk is slow, full or relaxed."""
        if self._direct:
            self._put(record)
        else:
            self._defer(record)

    def _put(self, record: Record) -> None:
        """Write a record from the caller's thread; hand over to the keeper when the disk refuses or is slow."""
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
            self._hand_over(_left_of(line, written), "the disk took only a part of a record")
        elif time.monotonic_ns() - before > SLOW and not self._sync_each and waited_for_disk(self._fd, before):
            self._direct, self._took = False, time.monotonic()
            self._wake()

    def _write_through(self, data: bytes) -> int:
        try:
            fd = os.dup(self._fd)  # by the time of the sync, the next segment may have the number
        except OSError:  # no descriptor left: then the sync may come a segment late
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
        """Records that did not fit into the tail and are lost."""
        return self._dropped

    @property
    def waiting(self) -> int:
        return len(self._tail) + self._under_way

    @property
    def trouble(self) -> str | None:
        """Why the disk does not take records just now, if it does not."""
        return self._failing

    @property
    def mine(self) -> bool:
        """Whether this very thread is writing the tail: a signal or a finalizer came in between."""
        return bool(self._draining._is_owned())  # type: ignore[attr-defined]  # as threading.Condition asks

    def tend(self) -> float:
        """The keeper's chore: write the tail, touch and sync the segment, begin the next one."""
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
        """True when every record so far is with the operating system, or with `fsync` on the disk."""
        if not self._drain(timeout):
            return False
        if fsync:
            try:
                with self._turning:  # what went to the segment before is on the disk then
                    os.fsync(self._fd)
            except OSError as error:
                self._not_synced(error)
                return False
        return not self._dropped

    def close(self, last: Record | None = None, timeout: float = 5.0) -> None:
        """Write the tail and the last record. On a full disk that one and the newest of the tail go where the reserve
        was; the others are given up, and counted in it. The descriptor stays until the journal is garbage: another
        thread may be about to write."""
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
            self._tail.appendleft(line_of(last))  # first, so that it finds room; `seq` orders
        self._drain_at_last(timeout)
        self._give_up()
        try:
            os.fdatasync(self._fd)
        except OSError:
            pass
        self.settled = True

    def forget(self) -> None:
        """In a forked child: let go of the parent's file."""
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
            tail.extend([b""] * places)  # a heavy record takes a place for every KiB

    def _no_room(self, item: Record | bytes) -> None:
        """A full tail. Beside many busy threads the keeper gets few turns, though the disk is quick: so the caller
        writes, unless the disk is far away, refuses, or the keeper's write has waited for it for a second while nobody
        else's went through; then the record is dropped."""
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
        """Drop what waits, but for the newest `all_but` bytes, and count it."""
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
        """Write what waits; true when nothing does. The callers write again themselves once the disk is quick."""
        if not self._draining.acquire(timeout=timeout):
            return False
        try:
            quick = self._direct  # with nothing to write, nothing is learnt of the disk
            chunk = 64 << 10  # little at first: it is the test whether the callers may write again
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
                lost = f"; {self._dropped:,} records did not fit into memory and are lost" if self._dropped else ""
                notes.say(f"{self._path} can be written again{lost}")
            self._failing, self._told = None, False
            self._hand_back(quick)
            return True
        finally:
            self._draining.release()

    def _drain_at_last(self, timeout: float) -> None:
        """As `_drain`; a disk that refuses may do so for a moment only, so it is asked again before all is given up."""
        until = time.monotonic() + min(timeout, PERSISTENT)
        while not self._drain(timeout) and self._failing and time.monotonic() < until:
            time.sleep(0.1)

    def _hand_back(self, quick: bool) -> None:
        """Let the callers write again as soon as one write was quick; what still waits need not be written first."""
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
                notes.once("unsayable", f"a record could not be written and is lost: {error!r}")
                self._count_dropped(1)
                continue
            lines.append(line)
            size += len(line)
        return lines

    def _write(self, lines: list[bytes]) -> tuple[list[bytes], str]:
        """Write lines in one call; return those that are not whole on disk, and why."""
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
            notes.say(
                f"cannot write {self._path}: {self._failing}. Training goes on; records wait in memory "
                f"(at most {TAIL_BYTES >> 20} MiB) and are written when that is possible again"
            )

    @property
    def _path(self) -> Path:
        return self.run / layout.JOURNAL / self.segment.filename

    def _look(self) -> None:
        """Save a segment that was deleted; begin the next one when this one is full."""
        try:
            status = os.fstat(self._fd)
            if status.st_nlink == 0:
                self._reopen(self.segment, keep=status.st_size)
            elif status.st_size >= SEGMENT_BYTES:
                self._reopen(self.segment._replace(number=self.segment.number + 1))
        except OSError as error:
            notes.once(f"segment {self._path}", f"{self._path}: {_reason(error)}; chiplog goes on trying")

    def _beat(self) -> None:
        try:
            os.utime(self._fd)
        except OSError as error:
            notes.once(f"beat {self.run}", f"{self._path} cannot be touched: {_reason(error)}; chiplog goes on trying")
        if self._dirty:
            self._sync(self._fd)

    def _sync(self, fd: int) -> None:
        """Bring to the disk what was written. What fails here is not written again, or it would be there twice."""
        self._dirty = False
        try:
            os.fdatasync(fd)
        except OSError as error:
            self._dirty = True
            self._not_synced(error)

    def _not_synced(self, error: OSError) -> None:
        notes.once(
            f"sync {self.run}",
            f"{self._path} cannot be synced: {_reason(error)}. Training goes on; until that is possible again "
            "a power cut may cost records",
        )

    def _reopen(self, segment: Segment, keep: int = 0) -> None:
        """Go on in another file under the same descriptor; `keep` bytes of one that was deleted are written again."""
        if keep:
            notes.once(
                f"deleted {self._path}",
                f"{self._path} was deleted while the run goes on; it is being written anew",
            )
            make_dir(self.run / layout.JOURNAL)
        new, old = create(self.run, segment), -1
        try:
            old = os.dup(self._fd)
            copied = _copy(old, new, 0) if keep else 0
            with self._turning:
                os.dup2(new, self._fd, inheritable=False)
                self.segment = segment
                time.sleep(0.01)  # for a writer that is just in the old file
                if keep:
                    _copy(old, new, copied)
                self._sync(old)  # now that nobody begins a write in it
                self._dirty = True
        except OSError:
            if not os.path.sameopenfile(new, self._fd):
                (self.run / layout.JOURNAL / segment.filename).unlink()  # so that it can be tried again
            raise
        finally:
            _close(new)
            _close(old)


def create(run: Path, segment: Segment) -> int:
    """Make a segment; fails if it is there. Readable too, so that a deleted one can be saved."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    return os.open(run / layout.JOURNAL / segment.filename, flags, 0o600)


def _close(fd: int) -> None:
    """Give a descriptor back. It is gone also when that fails, and what was written through it has been synced."""
    try:
        os.close(fd)
    except OSError:
        pass


def _copy(source: int, target: int, offset: int) -> int:
    """Append a file's bytes from `offset` on to another; return where they end."""
    while data := os.pread(source, 1 << 20, offset):
        offset += os.write(target, data)
    return offset


def open_attempt(run: Path, rank: int) -> tuple[Segment, int]:
    """Make the first segment of this rank's next attempt; of two writers that start at once each gets its own."""
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
        pass  # a disk too full for it will be reported by the first record


def _left_of(line: bytes, written: int) -> bytes:
    """What is still to be written of a line: all of it, but for a record that only lacks its newline."""
    return line if written < len(line) - 1 else b""


def _weigh(item: Record | bytes) -> int:
    """About what a record takes in memory."""
    if isinstance(item, bytes):
        return len(item)
    if isinstance(item, Step):
        return 100 * len(item.metrics)
    return len(line_of(item))


def _reason(error: OSError) -> str:
    return error.strerror or errno.errorcode.get(error.errno or 0, repr(error))
