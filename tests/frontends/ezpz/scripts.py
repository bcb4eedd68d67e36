"""Scripts in a process of their own, with real W&B offline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OFFLINE = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
OURS = ("WANDB_", "WB_", "EZPZ_", "CHIPLOG_")


def run_script(code: str, folder: Path) -> str:
    """Run it there, without the variables of whoever runs the tests; it must succeed. Returns what it said on stderr."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    (folder / "script.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**kept, **OFFLINE},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr
