"""Systems that this machine is not: macOS writes and reads, Windows reads, and file systems may ignore case.

They are simulated (docs/platforms.md): `tests/support/other_system` takes away from chiplog what they lack, `/proc` is
hidden, and a FUSE file system ignores case.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.core.errors import RunExists
from tests.support.waiting import wait_for

from .harness import PATIENCE
from .mounts import need

pytestmark = pytest.mark.timeout(PATIENCE)

HERE = Path(__file__).parents[2]
OTHER = HERE / "tests/support/other_system"
# The part of the suite that macOS must pass: everything that writes, and the reading of what was written.
CORE = ["tests/core/engine", "tests/core/journals", "tests/core/test_paths.py", "tests/store/journal"]
NOT_SIMULATED = {
    "tests/core/engine/test_step_loop.py": "uses jax, which needs /proc/cpuinfo",
    "tests/store/journal/test_writer.py::test_a_deleted_segment_is_written_again_with_all_it_held": "FUSE renames an open file",
}


@pytest.fixture
def folding(tmp_path: Path) -> Iterator[Path]:
    """A directory whose file system ignores case."""
    need("umount", "fusermount")
    pytest.importorskip("mfusepy", exc_type=ImportError)
    (tmp_path / "behind").mkdir()
    point = tmp_path / "folding"
    point.mkdir()
    words = [sys.executable, str(Path(__file__).with_name("folding.py")), str(tmp_path / "behind"), str(point)]
    server = subprocess.Popen(words, stderr=subprocess.PIPE)
    wait_for(lambda: server.poll() is not None or os.path.ismount(point), 30, "the FUSE mount")
    if server.poll() is not None:
        pytest.skip(f"this machine does not let root mount FUSE: {server.communicate()[1]!r}")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=False)
    server.terminate()
    server.communicate(timeout=60)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two finished runs and one that is still written by this process."""
    for name in ("first", "second", "live"):
        run = chiplog.init(project="p", id=name, dir=tmp_path / "runs", sinks="")
        for step in range(20):
            run.log({"loss": 1 / (step + 1)}, step=step)
        if name != "live":
            run.log({"sample": chiplog.Image(np.zeros((4, 4, 3), "uint8"))}, step=20)
            run.finish()
    return tmp_path / "runs"


def other(system: str) -> dict[str, str]:
    return {**os.environ, "OTHER_SYSTEM": system, "PYTHONPATH": str(OTHER), "PYTHONUTF8": "1"}


def python(system: str, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        check=False,
        capture_output=True,
        text=True,
        env=other(system),
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.timeout(600)
def test_the_core_suite_passes_on_macos(folding: Path) -> None:
    """Without the names that only Linux has, with /proc hidden, on a file system that ignores case."""
    need("unshare")
    left_out = [f"--deselect={name}" for name in NOT_SIMULATED]
    hidden = 'mount -t tmpfs none /proc && exec "$@"'
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folding / 'tests'}"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", hidden, "sh", *pytest_, *left_out, *CORE],
        check=False,
        cwd=HERE,
        env={**other("macos"), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert done.stdout.count(".") > 100, "the suite was not run"


def test_runs_that_differ_in_case_are_two_or_refused(folding: Path) -> None:
    """Where case is ignored they have one directory, and the second is refused instead of hiding the first."""
    chiplog.init(project="p", id="Run", dir=folding, sinks="").finish()
    with pytest.raises(RunExists, match="ignores case"):
        chiplog.init(project="p", id="run", dir=folding, sinks="")
    assert len(chiplog.read(folding / "p" / "Run").attempts) == 1


def test_files_that_differ_in_case_are_both_kept(folding: Path, tmp_path: Path) -> None:
    """Artifacts and pictures whose names differ only in case overwrite nothing."""
    run = chiplog.init(project="p", dir=folding, sinks="")
    for name in ("model", "MODEL", "Model"):
        (tmp_path / "source.txt").write_text(name)
        shutil.copy(tmp_path / "source.txt", tmp_path / f"source-{name}.txt")
        run.artifact(tmp_path / f"source-{name}.txt", name=name)
    assert run.finish()
    kept = [path.read_text() for path in (run.dir / "files/artifacts").iterdir()]
    assert sorted(kept) == ["MODEL", "Model", "model"]


READ = """
import sys
from chiplog.cli import main
root, out = sys.argv[1:]
for words in (
    "ls", "ls --json", "show first", "show live", "tail first", "cat first", "compare first second", "plot first loss",
    "watch --once", "report first", "trace first -o " + out + "/trace", "export first --to csv -o " + out + "/first.csv",
    "ui --export " + out + "/page", "doctor",
):
    print("==", words, flush=True)
    try:
        code = main(["--dir", root, *words.split()])
    except SystemExit as end:
        code = end.code
    print("exit", code, flush=True)
"""


def test_windows_reads(runs: Path, tmp_path: Path) -> None:
    """Every command that reads works without what Windows lacks, and no process gets a signal."""
    done = python("windows", READ, str(runs), str(tmp_path))
    assert re.findall(r"^exit (?!0)(.*)", done.stdout, re.MULTILINE) == [], done.stdout + done.stderr
    assert done.stdout.count("exit 0") == 14 and "Traceback" not in done.stderr, done.stdout + done.stderr
    assert (tmp_path / "first.csv").exists() and (tmp_path / "page/index.html").exists()
    assert (runs / "p/first/files/report.html").exists()
    assert re.search(r"live +running", done.stdout)  # by its heartbeat: a pid says nothing there


def test_windows_shows_the_page(runs: Path, tmp_path: Path) -> None:
    """`chiplog ui` starts, answers, serves a file of a run, and ends on Ctrl-C."""
    (tmp_path / "token").write_text("0123456789abcdef")  # its permissions say nothing there
    server = subprocess.Popen(
        [sys.executable, "-m", "chiplog", "ui", str(runs), "--no-browser", "--token-file", str(tmp_path / "token")],
        stdout=subprocess.PIPE,
        text=True,
        env=other("windows"),
    )
    assert server.stdout is not None

    def get(path: str) -> bytes:
        request = urllib.request.Request(address + path, headers={"Authorization": "Bearer 0123456789abcdef"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    try:
        address = server.stdout.readline().strip().partition("#")[0]
        assert b"<html" in get("").lower()
        (key,) = (run["key"] for run in json.loads(get("api/runs"))["runs"] if run["id"] == "first")
        (file,) = (one for one in json.loads(get(f"api/run?run={key}"))["files"] if one["path"].endswith(".png"))
        assert get(f"api/file?run={key}&file={file['key']}").startswith(b"\x89PNG")
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
    assert server.returncode == 0


WRITE = """
import chiplog
from chiplog.core.errors import Unsupported
chiplog.init(mode="disabled").log(loss=1.0)
try:
    chiplog.init(dir="runs")
except Unsupported as error:
    print(error)
from chiplog.cli import main
for verb in ("compact", "sync"):
    assert main([verb]) == 2
"""


def test_windows_says_that_it_does_not_write(tmp_path: Path) -> None:
    """At `init`, with what to do instead; nothing is created."""
    done = python("windows", WRITE)
    assert "on Windows, chiplog reads runs and does not write them; train in WSL" in done.stdout, done.stderr
    assert "run `chiplog compact` in WSL" in done.stderr and "run `chiplog sync` in WSL" in done.stderr
    assert done.returncode == 0 and not (tmp_path / "runs").exists()
