"""The end of a process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import chiplog

SCRIPT = """
import os, signal, sys, chiplog
run = chiplog.init("p", dir=sys.argv[1], alerts=False, on_signal="flush")
run.log({"loss": 1.0})
if sys.argv[2] == "term":
    os.kill(os.getpid(), signal.SIGTERM)
"""


def ended(folder: Path, how: str) -> int:
    return subprocess.run([sys.executable, "-c", SCRIPT, folder, how], check=False, timeout=60).returncode


def test_a_run_is_finished_at_the_exit_of_the_interpreter(tmp_path: Path) -> None:
    """Even if the script does not call `finish`."""
    assert ended(tmp_path, "exit") == 0
    (stored,) = chiplog.runs(tmp_path)
    assert stored.series("loss").values.tolist() == [1.0] and stored.state == "finished"


def test_sigterm_flushes_and_still_ends_the_process(tmp_path: Path) -> None:
    """The signal reaches the handler that was there before."""
    assert ended(tmp_path, "term") == -signal.SIGTERM
    (stored,) = chiplog.runs(tmp_path)
    assert stored.series("loss").values.tolist() == [1.0]
