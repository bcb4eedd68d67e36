"""What operating systems do differently."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import chiplog
from chiplog.core import operating_system
from chiplog.core.errors import Unwritable


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As on macOS: no `fdatasync`, and a call that flushes the drive; returns those calls."""
    flushed: list[int] = []
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, call: flushed.append(call))
    return flushed


@pytest.mark.parametrize("durability", ["process", "disk", "relaxed"])
def test_a_run_is_whole_without_fdatasync(tmp_path: Path, drive: list[int], durability: str) -> None:
    """On macOS every mode writes everything, syncs the drive, and closes its sinks."""
    run = chiplog.init(dir=tmp_path, sinks=["csv", "jsonl"], durability=durability)
    for number in range(500):
        run.log({"loss": number}, step=number)
    assert run.flush(fsync=True)
    assert run.finish().complete
    assert len(chiplog.read(run.dir).series("loss")) == 500
    assert len((run.dir / "files/metrics.csv").read_text().splitlines()) == 501
    assert len((run.dir / "files/metrics.jsonl").read_text().splitlines()) > 500
    assert len(drive) >= (500 if durability == "disk" else 2) and set(drive) == {51}


def test_a_drive_that_cannot_be_flushed_is_synced(
    tmp_path: Path, drive: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system of macOS refuses to flush the drive of its server; `fsync` is what there is."""

    def refuse(fd: int, call: int) -> None:
        raise OSError(45, "Operation not supported")

    synced: list[int] = []
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(os, "fsync", synced.append)
    operating_system.sync_data(7)
    assert synced == [7]


def test_a_host_has_a_name_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without `uname`, as on Windows."""
    monkeypatch.delattr(os, "uname")
    assert operating_system.hostname() == socket.gethostname()


def test_a_path_that_cannot_be_reached_is_not_absent(tmp_path: Path) -> None:
    """From Python 3.14 on, pathlib calls it absent, and a run would be started in its place."""
    long = tmp_path / ("x" * 300)
    with pytest.raises(OSError, match="too long"):
        operating_system.is_dir(long)
    with pytest.raises(OSError, match="too long"):
        operating_system.exists(long)
    with pytest.raises(Unwritable, match="too long"):
        chiplog.init(dir=long)
    assert not operating_system.exists(tmp_path / "absent") and not operating_system.is_dir(tmp_path / "absent")
    assert operating_system.is_dir(tmp_path)


def test_a_free_threaded_build_is_reported_once() -> None:
    """chiplog has not been tested on one."""
    code = "import sys; sys.abiflags = 't'; import chiplog, chiplog.cli, importlib; importlib.reload(chiplog)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "chiplog: this is a free-threaded build of Python, on which chiplog has not been tested\n"
