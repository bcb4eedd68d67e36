"""Real servers of Prometheus on loopback."""

from __future__ import annotations

import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_for


@contextmanager
def server(tmp_path: Path, name: str, port: int, *words: str) -> Iterator[str]:
    """A real server on loopback that is gone when the test is."""
    if (program := shutil.which(name)) is None:
        pytest.skip(f"{name} is not installed")
    with (
        (tmp_path / f"{name}.log").open("wb") as log,
        subprocess.Popen([program, *words], stdout=log, stderr=log, cwd=tmp_path) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(lambda: process.poll() is None and get(f"{url}/-/ready") is not None, 60, name)
            yield url
        finally:
            process.kill()


def get(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return str(response.read().decode())
    except OSError:
        return None
