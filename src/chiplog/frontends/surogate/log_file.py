"""Surogate's log file: a record is in it when the call that logs it returns, even if the process is killed next."""

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

SLOW = 0.25  # s: a disk that takes longer to write is left to the delivery
PATIENCE = 1.0  # s to wait for another thread that writes; if it is stuck, the record is left to the delivery
MOST = 100_000  # records that may wait, or be in the file ahead of the delivery


def usable(path: Path) -> bool:
    """Whether a log file can be kept at this path; raises BadSetting for a directory.

    A pipe or a device is left alone, and the run has no log file.
    """
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):  # the sink reports it
        return True
    if stat.S_ISDIR(kind):
        raise BadSetting(f"{path} is a directory; give a file, such as {path / 'training.json'}")
    return stat.S_ISREG(kind)


class LogFile:
    """A sink that writes most records before they are delivered: `write_now` is called as they are logged.

    The delivery adds what `write_now` could not write: earlier records, and those for which the disk failed or was
    slow. It reads the journal, so nothing is lost; records in the file are tracked by number and time, so nothing is
    written twice.
    """

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self._json = Json(path, schema.lines, own=True, fresh=fresh)
        self._lock = threading.Lock()
        self.ready = False  # something has been delivered since the file was restored
        self._slow = False
        self._waiting: dict[int, Record] = {}  # by number: logged, and not written
        self._ahead: dict[int, int] = {}  # number and time of records that were written before their delivery
        self._delivered: dict[int, int] = {}  # and of those that were delivered before `write_now` was called

    def write_now(self, record: Record) -> None:
        """Write a record on the thread that logs it; never raises, and waits for a slow disk only once."""
        if len(self._waiting) >= MOST:
            return
        self._waiting[record.seq] = record
        if not self.ready or self._slow:
            return
        if not self._lock.acquire(timeout=PATIENCE):
            self._slow = True
            return
        try:
            if self.ready:
                self._write_waiting()
        except Exception:  # the delivery fails too, and reports it
            self.ready = False
        finally:
            self._lock.release()

    def write(self, batch: Sequence[AnyRecord]) -> None:
        with self._lock:
            try:
                self._add(batch)
                if not self._slow:
                    self._write_waiting()
            except BaseException:
                self.ready = False  # until `restore`
                raise
            self.ready = True

    def _add(self, batch: Sequence[AnyRecord]) -> None:
        """Write those delivered records that `write_now` has not written."""
        rest = [record for record in batch if self._ahead.get(record.seq) != record.time]
        self._put(rest)
        for record in batch:
            if self._ahead.get(record.seq) == record.time:
                del self._ahead[record.seq]
        for record in rest:
            waiting = self._waiting.get(record.seq)
            if waiting is not None and waiting.time == record.time:
                del self._waiting[record.seq]
            else:  # its thread may be between the journal and `write_now`
                self._delivered[record.seq] = record.time
                if len(self._delivered) > MOST:
                    del self._delivered[next(iter(self._delivered))]

    def _write_waiting(self) -> None:
        """Write the waiting records, including those of threads that did not wait for the lock."""
        while len(self._ahead) < MOST and (waiting := list(self._waiting.values())):
            new = [record for record in waiting if self._delivered.pop(record.seq, None) != record.time]
            self._put(new)  # type: ignore[arg-type]
            for record in new:
                self._ahead[record.seq] = record.time
            for record in waiting:
                del self._waiting[record.seq]

    def _put(self, batch: Sequence[AnyRecord]) -> None:
        """Write to the file and measure its speed.

        Many records have no line, so they measure nothing; and the delay may be that of a busy processor, so a slow
        write is followed by one that changes nothing.
        """
        start, size = time.monotonic(), self._json.size
        self._json.write(batch)
        if self._json.size == size:
            return
        self._slow = time.monotonic() - start > SLOW
        if self._slow:
            start = time.monotonic()
            self._json.probe()
            self._slow = time.monotonic() - start > SLOW

    def state(self) -> dict[str, Plain]:
        with self._lock:
            return {**self._json.state(), "there": [list(one) for one in self._ahead.items()]}

    def restore(self, state: Mapping[str, Plain]) -> None:
        with self._lock:
            self.ready = False
            self._ahead = {}
            self._json.restore(state)
            self._ahead = {int(seq): int(at) for seq, at in state.get("there", [])}

    def close(self) -> None:
        with self._lock:
            self.ready = False
            self._json.close()
