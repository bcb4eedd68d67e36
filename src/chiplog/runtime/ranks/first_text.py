"""A small file that several processes write at once: the first text stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

from chiplog.core.paths import make_place


class FirstText:
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
        """Write a text unless there is one; returns the text that stays."""
        if (first := self.read()) is not None:
            return first
        make_place(self._path.parent)
        self._delete_old()
        mine = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        mine.write_text(f"{text} {time.time()}")
        try:
            self._path.unlink(missing_ok=True)
            os.link(mine, self._path)  # fails if another process was faster
        except FileExistsError:
            return self.read() or text
        finally:
            mine.unlink(missing_ok=True)
        return text

    def _delete_old(self) -> None:
        """Delete the files of launches that are long over."""
        for path in self._path.parent.glob(f"{self._path.name.partition('-')[0]}-*"):
            try:
                if time.time() - path.stat().st_mtime > self._old:
                    path.unlink()
            except OSError:
                continue
