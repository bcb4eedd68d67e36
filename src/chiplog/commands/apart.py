"""Processes that only bring records to services: they end when they mean to, and take along what packages leave."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from typing import NoReturn


def begin() -> None:
    """Have the temporary files of all packages in one place. Some make them when they are imported."""
    tempfile.tempdir = tempfile.mkdtemp(prefix="chiplog-")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)


def end(code: int) -> NoReturn:
    """All is delivered or given up: no thread of a service may hold the process any longer."""
    sys.stdout.flush()
    sys.stderr.flush()
    if tempfile.tempdir is not None:
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)
    os._exit(code)
