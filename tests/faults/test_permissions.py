"""Who may read a run: the setting, and another user who tries."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import users
from tests.faults.users import ALICE, BOB
from tests.support.waiting import wait_for

# A run with every kind of file that chiplog itself writes, a picture, a folder of the user's, and a sink in the relay.
TRAINING = """
import os, sys
os.umask(int(sys.argv[1], 8))
import chiplog
from pathlib import Path

model = Path(sys.argv[2]) / "model"
model.mkdir(exist_ok=True)
(model / "weights").write_bytes(b"w")
(model / "weights").chmod(0o600)
sinks = {"csv": {}, "jsonl": {}, "trackio": {}}
with chiplog.init(project="lm", id=sys.argv[3], dir=sys.argv[2] + "/runs", sinks=sinks, config={"lr": 1}) as run:
    for step in range(20):
        run.log({"loss": 1.0 / (step + 1)}, step=step)
    run.log({"picture": chiplog.Image([[0.0, 1.0]])})
    run.artifact(model)
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    with users.shared_directory() as path:
        yield path


@pytest.mark.parametrize(
    ("permissions", "umask", "directory", "file"),
    [
        ("private", "022", 0o700, 0o600),
        ("group", "077", 0o750, 0o640),
        ("umask", "007", 0o770, 0o660),
    ],
)
def test_everything_in_a_run_has_its_permissions(
    tmp_path: Path, permissions: str, umask: str, directory: int, file: int
) -> None:
    """Journal, parts, cursors, pictures, artifacts and what sinks and the relay write are all as the setting says."""
    run = _train(tmp_path, "mine", permissions, umask)
    assert (run / "files" / "metrics.csv").exists() and list((run / "cursors").iterdir())
    wrong = {
        str(path.relative_to(run)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in (run, *run.rglob("*"))
        if stat.S_IMODE(path.stat().st_mode) != (directory if path.is_dir() else file)
    }
    assert not wrong
    told = subprocess.run(
        [sys.executable, "-m", "chiplog", "doctor", str(run)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "other users can access" not in told.stdout


def test_a_later_attempt_keeps_the_permissions_of_the_run(tmp_path: Path) -> None:
    """A run that was opened to the group with chmod stays so, without the setting."""
    run = _train(tmp_path, "mine", "private", "022")
    subprocess.run(["chmod", "-R", "g+rX", str(run)], check=True)
    again = "import chiplog, sys; chiplog.init(project='lm', id='mine', dir=sys.argv[1], resume='must').finish()"
    subprocess.run([sys.executable, "-c", again, str(tmp_path / "runs")], check=True, timeout=60)
    assert (run / "journal" / "r00000-a02-0000.jsonl").exists()
    assert all(path.stat().st_mode & 0o040 for path in run.rglob("*"))


def test_another_user_reads_what_is_shared(shared: Path) -> None:
    """A member of the group reads a run of the group, everybody one of umask 022, and a private one names the cause."""
    for name in ("private", "group", "umask"):
        users.give(_train(shared, name, name, "022"), ALICE)
    root = str(shared / "runs")
    member = {"private": 2, "group": 0, "umask": 0}
    stranger = {"private": 2, "group": 2, "umask": 0}
    for group, expected in ((ALICE, member), (BOB, stranger)):
        for name, code in expected.items():
            for run in (name, f"{root}/lm/{name}"):
                got, out, err = users.chiplog(shared, BOB, "--dir", root, "show", run, group=group)
                assert got == code and "Traceback" not in err, (group, run, err)
                if code:
                    assert f"not readable: belongs to user {ALICE}" in err and "permissions" in err
                else:
                    assert "finished" in out and "loss" in out


def _train(folder: Path, name: str, permissions: str, umask: str) -> Path:
    folder.chmod(0o755)
    environ = {
        **os.environ,
        "CHIPLOG_PERMISSIONS": permissions,
        "CHIPLOG_COMPACT": "1",
        "TRACKIO_DIR": str(folder / "trackio"),
    }
    subprocess.run(
        [sys.executable, "-c", TRAINING, umask, str(folder), name], env=environ, check=True, timeout=120, cwd=folder
    )
    run = folder / "runs" / "lm" / name
    wait_for(lambda: len(list((run / "parts").glob("*.parquet"))) >= 4, 60)  # compaction is another process
    wait_for(lambda: not list(run.rglob(".*")) and not list(run.rglob("*.lease")), 60)
    return run
