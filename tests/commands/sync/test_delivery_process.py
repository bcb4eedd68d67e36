"""A process that only delivers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_it_leaves_nothing_behind_and_does_not_hang() -> None:
    """Its temporary directory is removed, and a thread that never ends does not keep it."""
    script = (
        "import tempfile, threading, time\n"
        "from chiplog.commands.sync import delivery_process\n"
        "delivery_process.start()\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "print(tempfile.mkdtemp())\n"
        "delivery_process.exit_at_once(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert not Path(done.stdout.strip()).exists() and not Path(done.stdout.strip()).parent.exists()
