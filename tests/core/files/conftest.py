"""A run made by somebody else, on systems with and without descriptors of directories."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from chiplog.core.files import folders


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"], autouse=True)
def relative(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no descriptors of directories."""
    monkeypatch.setattr(folders, "RELATIVE", request.param)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run with everything in it that is not a file of its own, and a folder outside with a secret."""
    outside, run = tmp_path / "outside", tmp_path / "runs" / "project" / "run"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    for folder in ("journal", "files/inner"):
        (run / folder).mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "files" / "plain").write_bytes(b"plain")
    (run / "files" / "inner" / "deep").write_bytes(b"deep")
    (run / "files" / "link").symlink_to(outside / "secret")
    (run / "files" / "broken").symlink_to(outside / "missing")
    (run / "files" / "folder").symlink_to(outside)
    (run / "files" / "zero").symlink_to("/dev/zero")
    os.mkfifo(run / "files" / "pipe")
    os.link(outside / "secret", run / "files" / "second")
    monkeypatch.chdir(run / "files")  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        yield run
