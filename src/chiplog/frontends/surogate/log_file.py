"""Surogate's log file: a record is in it when the call that logs it returns, also if the process is killed then."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chiplog.core.errors import BadSetting
from chiplog.core.records import AnyRecord, Plain, Record
from chiplog.frontends.surogate import schema
from chiplog.sinks.json import Json

SLOW = 0.25  # s: a disk that takes longer for a write is left to the delivery
PATIENCE = 1.0  # s for another thread that writes; then it is stuck, and the record is left to the delivery
MOST = 100_000  # records that may wait, or be in the file before the delivery has come to them


def usable(path: Path) -> bool:
    """Whether a log file can be kept at this path; raises BadSetting for a directory. A pipe or a device is left
    alone, and the run goes without a log file."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):  # the sink says what is wrong with it
        return True
    if stat.S_ISDIR(kind):
        raise BadSetting(f"{path} is a directory; give a file, such as {path / 'training.json'}")
    return stat.S_ISREG(kind)


class LogFile:
    """A sink whose records are mostly there already when the delivery brings them: `take` has written them at once.

    The delivery adds what `take` left: what came before it, and what a disk refused or was slow to take. It reads the
    journal, so nothing is lost, and what is in the file is known by number and time, so nothing is there twice.
    """

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self._json = Json(path, schema.lines, own=True, fresh=fresh)
        self._lock = threading.Lock()
        self._ready = False  # the delivery has brought something since the file was put in order
        self._slow = False
        self._waiting: dict[int, Record] = {}  # by number: taken, and not written
        self._there: dict[int, int] = {}  # number and time of records that the delivery has not come to
        self._brought: dict[int, int] = {}  # and of those that it wrote before they were taken

    def take(self, record: Record) -> None:
        """Write a record now, on the thread that logs; never raises, and waits for a slow disk once."""
        if len(self._waiting) >= MOST:
            return
        self._waiting[record.seq] = record
        if not self._ready or self._slow:
            return
        if not self._lock.acquire(timeout=PATIENCE):
            self._slow = True
            return
        try:
            if self._ready:
                self._write_waiting()
        except Exception:  # the delivery meets it too, and says so
            self._ready = False
        finally:
            self._lock.release()

    def write(self, batch: Sequence[AnyRecord]) -> None:
        with self._lock:
            try:
                self._add(batch)
                if not self._slow:
                    self._write_waiting()
            except BaseException:
                self._ready = False  # until `restore` has put the file in order
                raise
            self._ready = True

    def _add(self, batch: Sequence[AnyRecord]) -> None:
        """Write what the delivery brings and `take` has not written."""
        rest = [record for record in batch if self._there.get(record.seq) != record.time]
        self._put(rest)
        for record in batch:
            if self._there.get(record.seq) == record.time:
                del self._there[record.seq]
        for record in rest:
            taken = self._waiting.get(record.seq)
            if taken is not None and taken.time == record.time:
                del self._waiting[record.seq]
            else:  # its thread may be on its way from the journal to `take`
                self._brought[record.seq] = record.time
                if len(self._brought) > MOST:
                    del self._brought[next(iter(self._brought))]

    def _write_waiting(self) -> None:
        """Write what was taken, also by threads that have not waited for the lock."""
        while len(self._there) < MOST and (taken := list(self._waiting.values())):
            new = [record for record in taken if self._brought.pop(record.seq, None) != record.time]
            self._put(new)  # type: ignore[arg-type]
            for record in new:
                self._there[record.seq] = record.time
            for record in taken:
                del self._waiting[record.seq]

    def _put(self, batch: Sequence[AnyRecord]) -> None:
        """Write to the file, and learn how quick it is. Many a record has no line there, which says nothing; and a busy
        processor may be what took long, so a slow write is followed by one that changes nothing."""
        before, size = time.monotonic(), self._json.size
        self._json.write(batch)
        if self._json.size == size:
            return
        self._slow = time.monotonic() - before > SLOW
        if self._slow:
            before = time.monotonic()
            self._json.probe()
            self._slow = time.monotonic() - before > SLOW

    def state(self) -> dict[str, Plain]:
        with self._lock:
            return {**self._json.state(), "there": [list(one) for one in self._there.items()]}

    def restore(self, state: Mapping[str, Plain]) -> None:
        with self._lock:
            self._ready = False
            self._there = {}
            self._json.restore(state)
            self._there = {int(seq): int(at) for seq, at in state.get("there", [])}

    def close(self) -> None:
        with self._lock:
            self._ready = False
            self._json.close()
