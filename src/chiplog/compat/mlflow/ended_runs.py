"""The runs that have ended, as they were read: searches come back to them, and reading a run takes milliseconds."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TypeAlias

from mlflow.entities import Run

from chiplog.store import layout

MOST = 5000

Stamp: TypeAlias = tuple[tuple[str, int, int], ...]


class EndedRuns:
    """Runs by directory; one is forgotten when its journal changes."""

    def __init__(self) -> None:
        self._runs: OrderedDict[Path, tuple[Stamp, Run]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: Path, stamp: Stamp) -> Run | None:
        with self._lock:
            before, run = self._runs.get(path, ((), None))
            return run if run is not None and before == stamp else None

    def keep(self, path: Path, stamp: Stamp, run: Run) -> None:
        with self._lock:
            self._runs[path] = stamp, run
            self._runs.move_to_end(path)
            if len(self._runs) > MOST:
                self._runs.popitem(last=False)


def stamp_of(path: Path) -> Stamp:
    """What changes whenever something is written to a run."""
    with os.scandir(path / layout.JOURNAL) as entries:
        stats = sorted((entry.name, entry.stat()) for entry in entries)
    return tuple((name, about.st_size, about.st_mtime_ns) for name, about in stats)
