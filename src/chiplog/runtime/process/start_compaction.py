"""Starts the compaction of runs to Parquet, in a process that nothing waits for: at their end, and as segments close.

One process at a time: runs that end meanwhile, as in a sweep, are compacted together by the next.
"""

from __future__ import annotations

import atexit
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from chiplog.core import messages
from chiplog.core.background import forks, subprocesses


class Compactions:
    """The runs of this process that wait for compaction, and the process that compacts others."""

    def __init__(self) -> None:
        self._waiting: dict[Path, bool] = {}  # whether a run is live
        self._environ: Mapping[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self._start)
        forks.watch(self)

    def add(self, path: Path, environ: Mapping[str, str], *, live: bool) -> None:
        """Compact a run: now, or after those that are being compacted."""
        with self._lock:
            self._waiting[path] = live
            self._environ = dict(environ)
            if self._process is not None and self._process.poll() is None:
                return
        self._start()

    def forked(self) -> None:
        """In a forked child, the runs are the parent's."""
        self._lock = threading.Lock()
        self._waiting = {}

    def _start(self) -> None:
        with self._lock:
            paths, self._waiting = self._waiting, {}
            if not paths:
                return
            options = ["--quiet", *(["--beside"] if all(paths.values()) else [])]
            try:
                self._process = subprocesses.start(
                    "chiplog", "compact", *options, *map(str, paths), environ=self._environ, then=self._start
                )
            except OSError as error:
                messages.once("compact", f"compaction cannot be started ({error}); `chiplog compact` does it later")


_compactions: Compactions | None = None


def compact_beside(path: Path, environ: Mapping[str, str], *, live: bool = False) -> None:
    """Compact a run in another process, if what that needs is installed; a live one at low priority."""
    from importlib.util import find_spec

    global _compactions
    if find_spec("pyarrow") is None or find_spec("numpy") is None:
        return
    if _compactions is None:
        _compactions = Compactions()
    _compactions.add(path, environ, live=live)
