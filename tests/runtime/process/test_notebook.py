"""A run in a notebook, whose cells fail without ending the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from chiplog.store.reader import Stored

SESSION = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in (
    "from chiplog.assembly import beside; start = lambda id: beside(project='p', id=id, sinks='none')",
    "1 / 0",
    "after = start('after'); after.log({'loss': 1.0})",
    "failed = start('failed')",
    "failed.log({'loss': 1.0}); 1 / 0",
    "again = start('again'); again.log({'loss': 1.0}); 1 / 0",
    "again.log({'loss': 1.0})",
    "prnt('typo')",
):
    shell.run_cell(cell)
"""


def test_a_failed_cell_fails_the_runs_it_wrote_to_last(tmp_path: Path) -> None:
    """Not a run that starts later, one that goes on in a later cell, or one it did not write to."""
    done = subprocess.run([sys.executable, "-c", SESSION], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    states = {path.name: Stored(path).state for path in (tmp_path / "runs/p").iterdir()}
    assert states == {"after": "finished", "failed": "failed", "again": "finished"}
