"""Has the runs compacted that ended without it, such as killed ones: in another process, at low priority."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from chiplog.core import messages
from chiplog.core.background import subprocesses
from chiplog.store import layout
from chiplog.store.runs.summary_cache import FINAL, SummaryCache

MOST = 64  # runs per process


class Compactor:
    """Compacts the listed runs that have ended and that this user may write, one process at a time."""

    def __init__(self, summaries: SummaryCache, environ: Mapping[str, str]) -> None:
        self._summaries, self._environ = summaries, environ
        self._tried: dict[str, str] = {}  # by key, the stamp of a run when it was compacted
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> None:
        """Start a process for runs that need it, unless one is at work. Reads directories: not for an event loop."""
        if self._process is not None and self._process.poll() is None:
            return
        chosen: list[Path] = []
        for entry in self._summaries.entries():
            if entry.state not in FINAL or self._tried.get(entry.key) == entry.stamp:
                continue
            self._tried[entry.key] = entry.stamp
            path = self._summaries.path(entry.key)
            if path is not None and _lacks_parts(path):
                chosen.append(path.absolute())
            if len(chosen) == MOST:
                break
        if chosen:
            self._start(chosen)

    def stop(self) -> None:
        """End the process that is at work: a part is whole or not there."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def _start(self, chosen: list[Path]) -> None:
        words = ("compact", "--quiet", "--beside", *map(str, chosen))
        try:
            self._process = subprocesses.start("chiplog", *words, environ=self._environ)
        except OSError as error:
            messages.once("compact", f"compaction cannot be started ({error}); `chiplog compact` does it later")


def _lacks_parts(run: Path) -> bool:
    """Whether a run may be written and has a segment without a part."""
    return os.access(run, os.W_OK) and any(not layout.has_part(run, segment) for segment in layout.segments(run))
