"""What a process costs: by the clock, of the processors, and in memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple


class Cost(NamedTuple):
    """What a process took, without its children."""

    seconds: float
    processor: float  # s
    memory: float  # MiB at most


def cost_of(*words: str, environ: Mapping[str, str] | None = None) -> Cost:
    """Run `python words…` and wait for it; its output is dropped."""
    began = time.perf_counter()
    started = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, env={**os.environ, **(environ or {})}
    )
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit code {started.returncode}")
    return Cost(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def verb(*words: str, environ: Mapping[str, str] | None = None) -> Cost:
    """What a verb of chiplog costs."""
    return cost_of("-m", "chiplog", *words, environ=environ)
