"""Segments that are compacted side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import chiplog
from chiplog.commands.compact import workers
from chiplog.store import layout
from tests.commands.conftest import Cli
from tests.support.waiting import wait_for


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run of several segments."""
    run = tmp_path / "runs" / "p" / "several"
    with chiplog.init("p", id="several", dir=tmp_path / "runs", sinks="none", compact=False, alerts=False) as one:
        for step in range(200):
            one.log({"x": float(step)}, step=step)
    journal = run / "journal"
    first = journal / "r00000-a01-0000.jsonl"
    lines = first.read_bytes().splitlines(keepends=True)
    for number in range(4):
        piece = lines[number * len(lines) // 4 : (number + 1) * len(lines) // 4]
        (journal / f"r00000-a01-{number:04d}.jsonl").write_bytes(b"".join(piece))
    monkeypatch.setattr(workers, "LARGE", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    return run


def test_two_processes_compact_a_large_run(cli: Cli, several: Path) -> None:
    """Each segment once, and one line about each."""
    code, out, err = cli("compact", several)
    assert code == 0 and err == "" and out.count("->") == 4
    assert all(layout.has_part(several, segment) for segment in layout.segments(several))
    assert chiplog.read(several).series("x").values.tolist() == list(range(200))
    assert not (several / "parts" / "compact.lease").exists()


def test_a_worker_that_dies_costs_its_segment_only(cli: Cli, several: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported with its segment; the others are compacted, and the next time that one too."""
    start, started = workers._start, list[object]()

    def dying(run: Path, *, prune: bool) -> subprocess.Popen[bytes]:
        started.append(run)
        if len(started) > 1:
            return start(run, prune=prune)
        code = "import sys; sys.stdin.readline()"
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    monkeypatch.setattr(workers, "_start", dying)
    code, out, err = cli("compact", several)
    assert code == 2 and "r00000-a01-0000.jsonl: its process has ended" in err and out.count("->") == 3
    code, out, err = cli("compact", several)
    assert code == 0 and out.count("->") == 1 and err == ""


def test_workers_end_with_the_process_that_started_them(several: Path) -> None:
    """Even if it is killed."""
    code = "from pathlib import Path; import sys, time; from chiplog.commands.compact import workers\n"
    code += "one = workers._start(Path(sys.argv[1]), prune=False); print(one.pid, flush=True); time.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-c", code, str(several)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait(30)
    wait_for(lambda: not Path(f"/proc/{worker}").exists() or _is_zombie(worker), 60, "the end of the worker")
    parent.stdout.close()


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
