"""Processes that chiplog starts next to the training process, and that outlive it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

SLEEP = (
    "import os, sys, time; time.sleep(float(sys.argv[1])); "
    "os.execv(sys.executable, [sys.executable, '-m', *sys.argv[2:]])"
)


def start(
    *words: str,
    environ: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    log: IO[bytes] | None = None,
    then: Callable[[], object] = lambda: None,
    after: float = 0.0,
    keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `python -m words…` in its own session, so that a Ctrl-C of the training does not reach it.

    `then` is called on another thread when it has ended, if this process still runs. For `after` seconds, it is an
    interpreter that has imported nothing. It gets the descriptors in `keep`.
    """
    begin = ["-S", "-c", SLEEP, str(after)] if after else ["-m"]
    output: int | IO[bytes] = subprocess.DEVNULL if log is None else log
    started = subprocess.Popen(
        [sys.executable, *begin, *words],
        bufsize=0,
        pass_fds=keep,
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
