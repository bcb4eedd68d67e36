"""For processes that only deliver records to services: temporary files in one place, and an exit that cannot hang."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from typing import NoReturn


def start() -> None:
    """Collect the temporary files of all packages in one directory. Some packages create them on import."""
    tempfile.tempdir = tempfile.mkdtemp(prefix="chiplog-")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)


def exit_at_once(code: int) -> NoReturn:
    """Exit when everything is delivered or abandoned; no thread of a service may keep the process alive."""
    sys.stdout.flush()
    sys.stderr.flush()
    if tempfile.tempdir is not None:
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)
    os._exit(code)
