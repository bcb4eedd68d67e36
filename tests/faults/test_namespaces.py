"""Containers that share the host's name: a pid means something only in its own namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import chiplog
from chiplog.sinks.shared.lease import Lease
from chiplog.store import layout
from chiplog.store.runs import state
from tests.support.waiting import wait_for

INSIDE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
LIVE = """
import sys, chiplog
from pathlib import Path
from chiplog.sinks.shared.lease import Lease
run = chiplog.init("p", id="inside", dir=sys.argv[1], sinks="csv")
for step in range(100):
    run.log({"loss": 1.0}, step=step)
run.flush()
lease = Lease(run.dir / "cursors" / "other.lease")
assert lease.hold()
print("live", flush=True)
sys.stdin.read()
"""
LOOK = """
import sys
from pathlib import Path
from chiplog.sinks.shared.lease import Lease
from chiplog.store.runs import state
run = Path(sys.argv[1])
print(state.state_of(run), Lease(run / "cursors" / "csv.lease").hold(), Lease(run / "parts" / "compact.lease").hold())
"""


def need_namespaces() -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a pid namespace needs root and unshare")


@pytest.mark.parametrize("proc", ["its own", "that of the host"])
def test_a_live_run_in_another_pid_namespace_is_left_alone(tmp_path: Path, proc: str) -> None:
    """It is running, its leases are taken by nobody, and pruning leaves its journal; without a heartbeat it is lost."""
    need_namespaces()
    unshare = [word for word in INSIDE if proc == "its own" or word != "--mount-proc"]
    command = [*unshare, sys.executable, "-c", LIVE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "live\n"
            run = tmp_path / "p" / "inside"
            wait_for((run / "cursors" / "csv.lease").exists)
            assert state.state_of(run) == "running"
            for name in ("csv", "other"):
                lease = Lease(run / "cursors" / f"{name}.lease")
                assert not lease.free() and not lease.hold()
            journals = sorted((run / layout.JOURNAL).iterdir())
            prune = [sys.executable, "-m", "chiplog", "--dir", str(tmp_path), "compact", "--prune"]
            done = subprocess.run(prune, capture_output=True, text=True, check=True, timeout=60)
            assert "nothing to compact" in done.stdout
            assert sorted((run / layout.JOURNAL).iterdir()) == journals
            doctor = [sys.executable, "-m", "chiplog", "--dir", str(tmp_path), "doctor", "inside"]
            assert (
                "process that is gone" not in subprocess.run(doctor, capture_output=True, text=True, check=False).stdout
            )
        finally:
            process.kill()
            process.wait()  # before its input ends, which would end the run well
    wait_for(lambda: _age(run / layout.JOURNAL) > 0)
    old = time.time() - 100
    for file in (*(run / layout.JOURNAL).iterdir(), *(run / layout.CURSORS).iterdir()):
        os.utime(file, (old, old))
    assert state.state_of(run) == "lost"
    assert Lease(run / "cursors" / "other.lease").hold()


def test_a_run_outside_is_left_alone_from_within(tmp_path: Path) -> None:
    """The other way round: a container that sees the host's runs."""
    need_namespaces()
    with chiplog.init("p", id="outside", dir=tmp_path, sinks="csv") as run:
        run.log({"loss": 1.0}, step=0)
        wait_for((run.dir / "cursors" / "csv.lease").exists)
        assert Lease(run.dir / "cursors" / "csv.lease")._holder() is not None
        looked = subprocess.run(
            [*INSIDE, sys.executable, "-c", LOOK, str(run.dir)], capture_output=True, text=True, check=True, timeout=60
        )
        assert looked.stdout.split() == ["running", "False", "True"]


def test_a_killed_run_of_this_namespace_is_killed_at_once(tmp_path: Path) -> None:
    """The new field takes nothing from what a pid tells; records of older versions, without it, are judged by the pid."""
    code = LIVE.replace('"inside"', '"here"')
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "live\n"
        run = tmp_path / "p" / "here"
        first = next((run / layout.JOURNAL).glob("*.jsonl"))
        start = json.loads(first.read_bytes().partition(b"\n")[0])
        assert start["pid_namespace"] == Path("/proc/self/ns/pid").stat().st_ino
        assert state.state_of(run) == "running"
        process.kill()
        process.wait()
    assert state.state_of(run) == "killed"
    assert Lease(run / "cursors" / "other.lease").hold()


def _age(folder: Path) -> float:
    return min(time.time() - file.stat().st_mtime for file in folder.iterdir())
