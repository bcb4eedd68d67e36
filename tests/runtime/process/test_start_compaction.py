"""Compaction of finished runs, in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import chiplog
from chiplog.store import layout
from tests.core.run.begun import begin
from tests.support.waiting import wait_for

COMPACT = (
    "import os, sys; from pathlib import Path; from chiplog.runtime.process.start_compaction import compact_beside"
)


def test_runs_that_end_meanwhile_are_compacted_too(tmp_path: Path) -> None:
    """Also those that wait when the process exits."""
    runs = []
    for number in range(3):
        run = begin(tmp_path, id=f"run-{number}", compact=False)
        run.log({"loss": 1.0})
        run.finish()
        runs.append(run.dir)
    calls = "".join(f"; compact_beside(Path({str(path)!r}), os.environ)" for path in runs)
    subprocess.run([sys.executable, "-c", COMPACT + calls], check=True, timeout=60, env=dict(os.environ))
    wait_for(lambda: all(list((path / layout.PARTS).glob("*.parquet")) for path in runs), 60)
    assert [chiplog.read(path).series("loss").values.tolist() for path in runs] == [[1.0]] * 3


def test_without_its_packages_nothing_is_started(tmp_path: Path) -> None:
    """Writing a run does not need them."""
    block = "import importlib.util; importlib.util.find_spec = lambda name: None; "
    check = (
        f"; compact_beside(Path({str(tmp_path)!r}), os.environ); from chiplog.runtime.process import start_compaction"
    )
    code = COMPACT.replace("import os, sys; ", f"import os, sys; {block}", 1) + check
    code += "; print(start_compaction._compactions)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "None"
