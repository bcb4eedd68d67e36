"""kill -9 while the files of another tracker are converted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from chiplog.store import layout
from chiplog.store.reader import Stored
from tests.support.waiting import wait_for

ROWS = 60_000


def test_a_killed_import_continues_where_it_was(tmp_path: Path) -> None:
    """Killed at two places of the first of two files: then each point is there once, and nothing is damaged."""
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("a", "b"):
        (source / name).mkdir(parents=True)
        rows = "".join(f"{step},{step / 7}\n" for step in range(ROWS))
        (source / name / "metrics.csv").write_text(f"step,loss\n{rows}")
    words = [sys.executable, "-m", "chiplog", "import", str(source), "--dir", str(target)]
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for size in (1, 200_000):
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environ) as process:
            wait_for(lambda size=size: _written(target) >= size or process.poll() is not None, 60, "records")
            process.send_signal(signal.SIGKILL)
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True, env=environ)
    assert not done.stderr
    runs = [Stored(path) for path in layout.find_runs(target)]
    assert len(runs) == 2
    for run in runs:
        series = run.series("loss")
        assert series.steps.tolist() == list(range(ROWS)) and not run.damage and not run.missing
        assert series.values.tolist() == [step / 7 for step in range(ROWS)]


def _written(target: Path) -> int:
    return sum(path.stat().st_size for path in target.rglob("*.jsonl"))
