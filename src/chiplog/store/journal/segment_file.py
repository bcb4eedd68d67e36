"""The file to which a journal currently writes.

It is never truncated, and the number of its descriptor never changes while the journal is open: the next segment is
dup2-ed over it, so a write in flight can never hit another file.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from chiplog.core import messages
from chiplog.core.paths import make_dir
from chiplog.store import layout
from chiplog.store.layout import Segment

SEGMENT_BYTES = 64 << 20
RESERVE_BYTES = 16 << 10
BEAT = 5.0  # s between touches of the live segment and between fdatasyncs


class SegmentFile:
    """One open segment of a run, and the next one when it is full. It reports what fails, and tries again.

    The descriptor stays open until this object is garbage-collected: another thread may be about to write.
    """

    def __init__(self, run: Path, segment: Segment, fd: int, *, sync_each: bool) -> None:
        self.run, self.segment, self.fd = run, segment, fd
        self.dirty = False  # written to since the last sync
        self.torn = False  # may end in a torn line
        self._sync_each = sync_each
        self._switching = threading.RLock()  # from one segment to the next
        self._beaten = time.monotonic()

    @property
    def path(self) -> Path:
        return self.run / layout.JOURNAL / self.segment.filename

    def write(self, data: bytes) -> int:
        """Write once, and with `sync_each` wait for the disk; return how many bytes were written."""
        if not self._sync_each:
            return os.write(self.fd, data)
        try:
            fd = os.dup(self.fd)  # by the time of the sync, the next segment may have this number
        except OSError:  # no descriptor left: the sync may come one segment late
            written = os.write(self.fd, data)
            self._sync(self.fd)
            return written
        try:
            written = os.write(fd, data)
            self._sync(fd)
            return written
        finally:
            _close(fd)

    def write_lines(self, lines: Sequence[bytes]) -> tuple[Sequence[bytes], str]:
        """Write lines in one call; return those that are not completely on disk, and why."""
        data = b"".join(lines)
        if self.torn:
            data = b"\n" + data
        try:
            written = self.write(data)
        except OSError as error:
            return lines, reason(error)
        self.dirty = True
        if written == len(data):
            self.torn = False
            return [], ""
        written -= self.torn
        self.torn = True
        for index, line in enumerate(lines):
            if written < len(line):
                return [unwritten(line, written), *lines[index + 1 :]], "no space for a whole record"
            written -= len(line)
        return [], ""

    def fsync(self) -> bool:
        """Whether everything written so far is on disk."""
        try:
            with self._switching:  # the previous segment is on disk then
                os.fsync(self.fd)
        except OSError as error:
            self._report_unsynced(error)
            return False
        return True

    def maintain(self) -> None:
        """Restore a segment that was deleted, start the next one when this one is full, touch and sync the file."""
        try:
            status = os.fstat(self.fd)
            if status.st_nlink == 0:
                self._reopen(self.segment, keep=status.st_size)
            elif status.st_size >= SEGMENT_BYTES:
                self._reopen(self.segment._replace(number=self.segment.number + 1))
        except OSError as error:
            messages.once(f"segment {self.path}", f"{self.path}: {reason(error)}; chiplog keeps trying")
        now = time.monotonic()
        if now - self._beaten >= BEAT:
            self._beaten = now
            self._beat()

    def finish(self) -> None:
        """Sync the last records."""
        try:
            os.fdatasync(self.fd)
        except OSError:
            pass

    def forget(self) -> None:
        """In a forked child: release the parent's file."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        try:
            self.forget()
        except Exception:  # interpreter teardown, or __init__ never ran
            pass

    def _beat(self) -> None:
        try:
            os.utime(self.fd)
        except OSError as error:
            messages.once(f"beat {self.run}", f"{self.path} cannot be touched: {reason(error)}; chiplog keeps trying")
        if self.dirty:
            self._sync(self.fd)

    def _sync(self, fd: int) -> None:
        """Sync what was written. A failure is not followed by another write, which would duplicate records."""
        self.dirty = False
        try:
            os.fdatasync(fd)
        except OSError as error:
            self.dirty = True
            self._report_unsynced(error)

    def _report_unsynced(self, error: OSError) -> None:
        messages.once(
            f"sync {self.run}",
            f"{self.path} cannot be synced: {reason(error)}. Training continues; until a sync succeeds, "
            "a power failure may lose records",
        )

    def _reopen(self, segment: Segment, keep: int = 0) -> None:
        """Continue in another file under the same descriptor; copies `keep` bytes of a deleted one to it."""
        if keep:
            messages.once(f"deleted {self.path}", f"{self.path} was deleted during the run; chiplog writes it again")
            make_dir(self.run / layout.JOURNAL)
        new, old = _create(self.run, segment), -1
        try:
            old = os.dup(self.fd)
            copied = _copy(old, new, 0) if keep else 0
            with self._switching:
                os.dup2(new, self.fd, inheritable=False)
                self.segment = segment
                time.sleep(0.01)  # for a write in progress in the old file
                if keep:
                    _copy(old, new, copied)
                self._sync(old)  # no new write can start in it now
                self.dirty = True
        except OSError:
            if not os.path.sameopenfile(new, self.fd):
                (self.run / layout.JOURNAL / segment.filename).unlink()  # so that it can be tried again
            raise
        finally:
            _close(new)
            _close(old)


def open_attempt(run: Path, rank: int) -> tuple[Segment, int]:
    """Create the first segment of this rank's next attempt; two writers that start at once get one each."""
    run.parent.mkdir(parents=True, exist_ok=True)  # the user named it, so it follows the umask
    make_dir(run / layout.JOURNAL)
    taken = [segment.attempt for segment in layout.segments(run) if segment.rank == rank]
    for attempt in count(max(taken, default=0) + 1):
        segment = Segment(rank, attempt, 0)
        try:
            fd = _create(run, segment)
        except FileExistsError:
            continue
        _reserve(layout.reserve(run, rank))
        return segment, fd
    raise AssertionError("unreachable")


def unwritten(line: bytes, written: int) -> bytes:
    """What is left to write of a line: all of it, unless only the newline is missing."""
    return line if written < len(line) - 1 else b""


def reason(error: OSError) -> str:
    return error.strerror or errno.errorcode.get(error.errno or 0, repr(error))


def _create(run: Path, segment: Segment) -> int:
    """Create a segment; fails if it exists. Readable too, so that a deleted one can be restored."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    return os.open(run / layout.JOURNAL / segment.filename, flags, 0o600)


def _reserve(path: Path) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            os.write(fd, b"\0" * RESERVE_BYTES)
        finally:
            os.close(fd)
    except OSError:
        pass  # the first record will report a full disk


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
