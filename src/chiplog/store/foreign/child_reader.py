"""Reads with a package that is not to be trusted with this process: it may crash, hang, or keep threads and locks.

The child prints one JSON object per line.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from chiplog.core.records import Plain
from chiplog.store.foreign.yaml_and_json import decoded

PATIENCE = 600.0  # s for one run
SHOWN = 300  # characters of its last words


class ChildFailed(ValueError):
    """It ended early, and why: what it printed before is right."""


def lines(module: str, arguments: Sequence[str | Path]) -> Iterator[dict[str, Plain]]:
    """What `python -m module arguments` prints; raises `ChildFailed` at the end if it fails."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as child,
    ):
        timer = threading.Timer(PATIENCE, child.kill)
        timer.daemon = True
        timer.start()
        try:
            assert child.stdout is not None
            for line in child.stdout:
                data = decoded(line)
                if isinstance(data, dict):
                    yield data
            code = child.wait()
        finally:
            timer.cancel()
            if child.poll() is None:
                child.kill()
        if code:
            errors.seek(0)
            words = errors.read(1 << 20).decode("utf-8", "backslashreplace").strip().rpartition("\n")[2]
            raise ChildFailed(words[-SHOWN:] or f"its reader ended with code {code}")
