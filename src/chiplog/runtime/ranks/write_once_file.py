"""A small file that several processes write at once: the first text stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

from chiplog.core.files.writing import make_place

LOCKED = 5.0  # s after which a lock is that of a process that was killed


class WriteOnceFile:
    """One word in a file, with the time it was written. What was written before `since` belongs to another launch."""

    def __init__(self, path: Path, since: float, old: float) -> None:
        self._path, self._since, self._old = path, since, old

    def read(self) -> str | None:
        """The text that stays; None if there is none yet."""
        try:
            text, written = self._path.read_text().split()
            return text if float(written) >= self._since else None
        except (OSError, ValueError):
            return None

    def offer(self, text: str) -> str:
        """Write a text unless there is one; returns the text that stays, the same in every process."""
        if (first := self.read()) is not None:
            return first
        make_place(self._path.parent)
        self._delete_old()
        mine = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        mine.write_text(f"{text} {time.time()}")
        until = time.monotonic() + 2 * LOCKED
        try:
            while True:
                try:
                    os.link(mine, self._path)
                    return text
                except FileExistsError:  # another process was faster, or an earlier launch is in the way
                    if (first := self.read()) is not None:
                        return first
                    if time.monotonic() > until:
                        raise
                self._remove_stale()
        finally:
            mine.unlink(missing_ok=True)

    def _remove_stale(self) -> None:
        """Remove the text of an earlier launch, or wait a moment for the process that does: one at a time, since the
        next could remove a text that is already new."""
        lock = self._path.with_name(f"{self._path.name}.lock")
        try:
            lock.touch(exist_ok=False)
        except FileExistsError:
            self._delete(lock, LOCKED)  # of a process that was killed
            time.sleep(0.01)
            return
        try:
            if self._path.exists() and self.read() is None:
                self._path.unlink()
        finally:
            lock.unlink(missing_ok=True)

    def _delete_old(self) -> None:
        """Delete the files of launches that are long over."""
        for path in self._path.parent.glob(f"{self._path.name.partition('-')[0]}-*"):
            if path != self._path:
                self._delete(path, self._old)

    def _delete(self, path: Path, age: float) -> None:
        try:
            if time.time() - path.stat().st_mtime > age:
                path.unlink()
        except OSError:
            pass  # another process was faster
