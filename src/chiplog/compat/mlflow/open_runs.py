"""The runs of chiplog that this process writes to for MLflow, by id."""

from __future__ import annotations

import atexit
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import chiplog
from chiplog import assembly
from chiplog.compat.shared.quiet_sinks import quiet_sinks
from chiplog.core import run as engine
from chiplog.runtime.ranks import detect
from chiplog.store.reader import Stored

REOPENED = 8  # runs that had ended and may stay open at a time


class NothingKept(Exception):
    """No run could be started."""


@dataclass
class OpenRun:
    """A run that is open here. Hold the lock while something is written that depends on what is there."""

    recorded: engine.Run
    params: dict[str, str] = field(default_factory=dict)  # as they are now
    tags: dict[str, str] = field(default_factory=dict)
    state: str = ""  # in which it had ended, if it was opened again only to add something
    active: bool = True  # not deleted
    lock: threading.RLock = field(default_factory=threading.RLock)


class OpenRuns:
    """Starts runs, continues those that have ended, and joins those of other processes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runs: dict[str, OpenRun] = {}
        self._started: dict[str, Path] = {}  # directories, which are temporary ones if the root cannot be written
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._ends_at_exit = False

    def start(self, project: str, run_id: str, name: str) -> OpenRun:
        """Start a new run; raises `NothingKept` where chiplog is disabled."""
        with self._lock:
            started = self._open(project, run_id, name=name, resume="never")
            if started.inert:
                raise NothingKept
            self._started[run_id] = started.dir
            return self._keep(run_id, OpenRun(started))

    def get(self, run_id: str) -> OpenRun | None:
        """The run with this id if it is open here."""
        with self._lock:
            if self._process != os.getpid():  # a forked process has copies that write nothing
                self._process, self._runs = os.getpid(), {}
            held = self._runs.get(run_id)
            return held if held is not None and not held.recorded.inert else None

    def directory(self, run_id: str) -> Path | None:
        """The directory of a run that this process has started."""
        return self._started.get(run_id)

    def ended_at_exit(self, run_id: str) -> bool:
        """Whether a run that was open here has been ended by the end of the process, or by the script itself."""
        with self._lock:
            return self._process == os.getpid() and run_id in self._runs and self._runs[run_id].recorded.inert

    def open(self, stored: Stored, params: dict[str, str], tags: dict[str, str]) -> OpenRun:
        """A stored run: as it is open here, joined if another process writes it, or else continued."""
        with self._lock:
            if (held := self.get(stored.id)) is not None:
                return held
            if (state := stored.state) == "running":
                return self._keep(stored.id, OpenRun(_join(stored.path), params, tags))
            recorded = self._open(stored.project, stored.id, resume="must", tags=stored.tags or None, reopened=True)
            self._limit_reopened()
            return self._keep(stored.id, OpenRun(recorded, params, tags, state))

    def close(self, run_id: str, state: str) -> None:
        """End a run."""
        with self._lock:
            held = self._runs.pop(run_id, None)
        if held is not None:
            held.recorded.finish(state=state)

    def _keep(self, run_id: str, run: OpenRun) -> OpenRun:
        self._runs[run_id] = run
        return run

    def _open(
        self, project: str, run_id: str, *, resume: str, name: str | None = None, tags: object = None,
        reopened: bool = False,
    ) -> engine.Run:  # fmt: skip
        environ = os.environ
        return assembly.beside(
            sinks=quiet_sinks(environ),
            probes="" if reopened else None,
            project=project,
            name=name,
            id=run_id,
            dir=self._started[run_id].parent.parent if run_id in self._started else self._root,
            resume=resume,
            tags=tags,
            ranks=detect.detect(environ).rank,
            reduce=False,  # the other ranks have runs of their own
        )

    def _limit_reopened(self) -> None:
        """End the oldest of the runs that were opened again, and all of them at the end of the process."""
        if not self._ends_at_exit:
            self._ends_at_exit = True
            atexit.register(self._close_reopened, 0)
        self._close_reopened(REOPENED - 1)

    def _close_reopened(self, but: int) -> None:
        with self._lock:
            reopened = [run_id for run_id, held in self._runs.items() if held.state and self._process == os.getpid()]
            for run_id in reopened[: max(0, len(reopened) - but)]:
                self.close(run_id, self._runs[run_id].state)


def _join(path: Path) -> engine.Run:
    """Open a journal in a run that another process is writing; the current run stays current."""
    before = engine.current
    joined = chiplog.attach(path)
    if before is not None and not before.inert:
        engine.current = before
    return joined
