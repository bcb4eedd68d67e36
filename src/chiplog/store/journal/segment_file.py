"""The file to which a journal currently writes.

It is never truncated, and the number of its descriptor never changes while the journal is open: the next segment is
dup2-ed over it, so a write in flight can never hit another file. The next segment is created in the directory that was
opened with the first one, wherever that has been moved to.
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
from chiplog.core.operating_system import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, sync, sync_data
from chiplog.core.paths import access_of, make_dir, make_run, share
from chiplog.store import layout
from chiplog.store.journal.directory_identity import DirectoryIdentity
from chiplog.store.layout import Segment

SEGMENT_BYTES = 8 << 20  # of one of the first segments: the newest is decoded whenever a live run is opened
SEGMENT_SECONDS = 1800.0  # after which a segment that is worth compacting is closed
ENOUGH = 1 << 20  # bytes that are
RESERVE_BYTES = 16 << 10
PARTIAL = "the disk accepted only part of a record"
BEAT = 5.0  # s between touches of the live segment and between syncs


class SegmentFile:
    """One open segment of a run, and the next one when it is full. It reports what fails, and tries again.

    The descriptor stays open until this object is garbage-collected: another thread may be about to write.
    """

    def __init__(self, run: Path, segment: Segment, fd: int, *, sync_each: bool) -> None:
        self.run, self.segment, self.fd = run, segment, fd
        self.dirty = False  # written to since the last sync
        self.torn = False  # may end in a torn line
        self.unterminated = (
            False  # ends in a whole record without its newline, which readers cannot tell from a torn one
        )
        self._sync_each = sync_each
        self._switching = threading.RLock()  # from one segment to the next
        self._beaten = self._opened = time.monotonic()
        self._size = 0
        self.own_directory = DirectoryIdentity(run)
        self._folder = _open_folder(run, segment, fd)
        self._access = access_of(run)

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
        """Write lines in one call; return those that are not completely on disk, and why.

        The reason why a disk took only a part, `PARTIAL`, is known once another write fails.
        """
        data = b"".join(lines)
        if self.torn:
            data = b"\n" + data
        try:
            written = self.write(data)
        except OSError as error:
            return lines, reason(error)
        self.dirty = True
        if written == len(data):
            self.torn = self.unterminated = False
            return [], ""
        if written:
            self.unterminated = False
        written -= self.torn
        self.torn = True
        for index, line in enumerate(lines):
            if written < len(line):
                self.unterminated = self.unterminated or written == len(line) - 1 > 0
                return [unwritten(line, written), *lines[index + 1 :]], PARTIAL
            written -= len(line)
        return [], ""

    def fsync(self) -> bool:
        """Whether everything written so far is on disk."""
        try:
            with self._switching:  # the previous segment is on disk then
                sync(self.fd)
        except OSError as error:
            self._report_unsynced(error)
            return False
        return True

    def maintain(self) -> bool:
        """Restore a segment that was deleted, start the next one when this one is full, touch and sync the file.

        The result is whether the file has grown since the last time, or is not synced yet.
        """
        self.own_directory.check()  # learns its identity once the manifest is written
        before = self._size
        try:
            status = os.fstat(self.fd)
            self._size = status.st_size
            if status.st_nlink == 0:
                self._reopen(self.segment, keep=status.st_size)
            elif self._is_complete(status.st_size):
                self._reopen(self.segment._replace(number=self.segment.number + 1))
        except OSError as error:
            messages.once(f"segment {self.path}", f"{self.path}: {reason(error)}; chiplog keeps trying")
        now = time.monotonic()
        if now - self._beaten >= BEAT:
            self._beaten = now
            self._beat()
        return self.dirty or self._size != before

    def _is_complete(self, size: int) -> bool:
        """Whether the next segment should start: this one is full, or old and not too short."""
        if size >= full(self.segment.number):
            return True
        return size >= ENOUGH and time.monotonic() - self._opened >= SEGMENT_SECONDS

    def release_reserve(self) -> None:
        """Give the space that was set aside for a full disk back to it."""
        try:
            if self._folder is not None:
                os.unlink(layout.reserve(self.run, self.segment.rank).name, dir_fd=self._folder)
            elif self.own_directory.check():
                layout.reserve(self.run, self.segment.rank).unlink()
        except OSError:
            pass

    def finish(self) -> None:
        """Sync the last records."""
        try:
            sync_data(self.fd)
        except OSError:
            pass

    def forget(self) -> None:
        """In a forked child: release the parent's file."""
        fd, self.fd = self.fd, -1
        folder, self._folder = self._folder, None
        if folder is not None:
            _close(folder)
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
            sync_data(fd)
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
        elif self.torn:  # a record that lacks only its newline must not end the file
            self.torn = self.unterminated = os.write(self.fd, b"\n") != 1
        new, old = self._create(segment), -1
        try:
            old = os.dup(self.fd)
            copied = _copy(old, new, 0) if keep else 0
            with self._switching:
                os.dup2(new, self.fd, inheritable=False)
                self.segment, self._opened = segment, time.monotonic()
                time.sleep(0.01)  # for a write in progress in the old file
                if keep:
                    _copy(old, new, copied)
                self._sync(old)  # no new write can start in it now
                self.dirty = True
        except OSError:
            if not os.path.sameopenfile(new, self.fd):
                self._unlink(segment)  # so that it can be tried again
            raise
        finally:
            _close(new)
            _close(old)

    def _create(self, segment: Segment) -> int:
        """Create a segment in the run's own directory; if that was deleted, in a new one."""
        if self._folder is not None:
            try:
                return _create_at(segment.filename, self._access, self._folder)
            except FileNotFoundError:  # the directory was deleted
                pass
        if self.run.exists() and not self.own_directory.check():
            taken = self.run
            self.run = taken.with_name(f"{taken.name}-{os.urandom(3).hex()}")
            messages.say(f"{taken} was deleted, and another run is there now; this one continues in {self.run}")
        make_dir(self.run / layout.JOURNAL, self._access)
        new = _create_at(self.run / layout.JOURNAL / segment.filename, self._access)
        if (folder := _open_folder(self.run, segment, new)) is not None:
            old, self._folder = self._folder, folder
            if old is not None:
                _close(old)
        return new

    def _unlink(self, segment: Segment) -> None:
        if self._folder is not None:
            os.unlink(segment.filename, dir_fd=self._folder)
        else:
            (self.run / layout.JOURNAL / segment.filename).unlink()


def open_attempt(run: Path, rank: int, permissions: str = "private") -> tuple[Segment, int]:
    """Create the first segment of this rank's next attempt; two writers that start at once get one each."""
    make_run(run, permissions)
    access = access_of(run)
    taken = [segment.attempt for segment in layout.segments(run) if segment.rank == rank]
    for attempt in count(max(taken, default=0) + 1):
        segment = Segment(rank, attempt, 0)
        try:
            fd = _create_at(run / layout.JOURNAL / segment.filename, access)
        except FileExistsError:
            continue
        _reserve(layout.reserve(run, rank), access)
        return segment, fd
    raise AssertionError("unreachable")


def full(number: int) -> int:
    """The bytes of a full segment. They double at segments 64, 256 and 1,024, so that a long run has few files."""
    return SEGMENT_BYTES << min(3, max(0, (number.bit_length() - 5) // 2))


def unwritten(line: bytes, written: int) -> bytes:
    """What is left to write of a line: all of it, unless only the newline is missing."""
    return line if written < len(line) - 1 else b""


def reason(error: OSError) -> str:
    return error.strerror or errno.errorcode.get(error.errno or 0, repr(error))


def _create_at(name: str | Path, access: int, folder: int | None = None) -> int:
    """Create a segment; fails if it exists. Readable too, so that a deleted one can be restored."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | O_CLOEXEC | O_NOFOLLOW
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    share(fd, access)
    return fd


def _open_folder(run: Path, segment: Segment, fd: int) -> int | None:
    """The directory of an open segment; None if it cannot be opened, or has been replaced meanwhile."""
    if os.open not in os.supports_dir_fd:
        return None
    try:
        folder = os.open(run / layout.JOURNAL, os.O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    except OSError:  # no descriptor left: the next segment is opened by its path
        return None
    try:
        if os.path.samestat(os.stat(segment.filename, dir_fd=folder), os.fstat(fd)):
            return folder
    except OSError:
        pass
    _close(folder)
    return None


def _reserve(path: Path, access: int) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        try:
            share(fd, access)
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
