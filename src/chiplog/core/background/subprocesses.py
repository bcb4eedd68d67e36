"""Processes that chiplog starts next to the training process, and that outlive it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO


def start(
    *words: str,
    environ: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    log: IO[bytes] | None = None,
    then: Callable[[], object] = lambda: None,
) -> subprocess.Popen[bytes]:
    """Start `python -m words…` in its own session, so that a Ctrl-C of the training does not reach it.

    `then` is called on another thread when it has ended, if this process still runs.
    """
    output: int | IO[bytes] = subprocess.DEVNULL if log is None else log
    started = subprocess.Popen(
        [sys.executable, "-m", *words],
        bufsize=0,
        stdin=stdin,
        stdout=output,
        stderr=output,
        start_new_session=True,
        cwd="/",
        env={**environ, "PYTHONPATH": _absolute(environ.get("PYTHONPATH", ""))},
    )

    def reap() -> None:
        started.wait()
        then()

    try:
        threading.Thread(target=reap, name="chiplog-child", daemon=True).start()
    except RuntimeError:
        pass  # the interpreter is shutting down, and the zombie goes with it
    return started


def _absolute(paths: str) -> str:
    """The same paths, made absolute."""
    return os.pathsep.join(str(Path(path).absolute()) for path in paths.split(os.pathsep) if path)
