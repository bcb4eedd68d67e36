"""For processes that only deliver records to services: temporary files in one place, and an exit that cannot hang."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from importlib import import_module
from typing import NoReturn


def start() -> None:
    """Collect the temporary files of all packages in one directory. Some packages create them on import."""
    os.environ.pop("WANDB_SERVICE", None)  # the W&B process of the training itself, which ends with it
    tempfile.tempdir = tempfile.mkdtemp(prefix="chiplog-")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)


def bound_answers(services: Iterable[str]) -> None:
    """Bound what services may answer, in a process that is ours."""
    if "mlflow" in services:
        try:
            import_module("chiplog.sinks.mlflow.response_limits").bound_answers()  # needs the package of the sink
        except ImportError:
            pass  # the sink reports that it is missing


def exit_at_once(code: int) -> NoReturn:
    """Exit when everything is delivered or abandoned; no thread of a service may keep the process alive."""
    sys.stdout.flush()
    sys.stderr.flush()
    if tempfile.tempdir is not None:
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)
    os._exit(code)
