"""Processes that compact beside training take turns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.waiting import wait_for

TURN = """
import os, sys, time
from pathlib import Path
from chiplog.commands.compact.verb import turn
with turn(Path(sys.argv[1])):
    Path(sys.argv[2]).write_text(str(os.nice(0)))
    time.sleep(float(sys.argv[3]))
"""


def _start(folder: Path, name: str, seconds: float) -> tuple[subprocess.Popen[bytes], Path]:
    inside = folder / name
    return subprocess.Popen([sys.executable, "-c", TURN, str(folder), str(inside), str(seconds)]), inside


def test_one_process_at_a_time_at_low_priority(tmp_path: Path) -> None:
    """The next one starts when the first has ended, even if it was killed."""
    first, inside = _start(tmp_path, "first", 60)
    wait_for(inside.exists, 30)
    wait_for(lambda: inside.read_text() == "19", 10)
    second, waiting = _start(tmp_path, "second", 0)
    wait_for(lambda: second.poll() is not None or "lock" in Path(f"/proc/{second.pid}/wchan").read_text(), 30)
    assert second.poll() is None and not waiting.exists(), "it waits for the lock"
    first.kill()
    first.wait(10)
    assert second.wait(60) == 0 and waiting.exists()


def test_a_folder_that_cannot_be_used_stops_nobody(tmp_path: Path) -> None:
    """Compaction then goes on without taking turns."""
    (tmp_path / "file").write_text("not a folder")
    inside = tmp_path / "inside"
    subprocess.run([sys.executable, "-c", TURN, str(tmp_path / "file"), str(inside), "0"], check=True, timeout=60)
    assert inside.exists()
