"""`chiplog run --as tensorboard`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import chiplog

pytest.importorskip("torch")
SCRIPT = """
import os, subprocess, sys
from torch.utils.tensorboard import SummaryWriter
import torch.utils.tensorboard.writer as writer
assert writer.SummaryWriter is SummaryWriter and "tensorboard" not in sys.modules
with SummaryWriter("logs/" + sys.argv[1]) as board:
    board.add_scalar("loss", 0.5, 3)
if sys.argv[1] == "parent":
    subprocess.run([sys.executable, "train.py", "child"], check=True)
    assert os.environ.get("CUSTOMIZED") == "yes"
"""


def run(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chiplog", "run", "--as", "tensorboard", *words]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CHIPLOG")}
    return subprocess.run(
        command, cwd=folder, env=kept | environ, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_writer_of_an_untouched_script_and_its_children_is_ours(tmp_path: Path) -> None:
    """A `sitecustomize` of the environment still runs; event files are there if they are asked for."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import os\nos.environ['CUSTOMIZED'] = 'yes'\n")
    (tmp_path / "train.py").write_text(SCRIPT.replace(' and "tensorboard" not in sys.modules', ""))
    more = {"PYTHONPATH": str(tmp_path / "site"), "CHIPLOG_EVENT_FILES": "1"}
    done = run(tmp_path, "--project", "p", "--", sys.executable, "train.py", "parent", **more)
    assert done.returncode == 0, done.stderr
    runs = {one.name: one for one in chiplog.runs(tmp_path / "runs", "p")}
    assert runs.keys() == {"logs/parent", "logs/child"}
    assert all(one.series("loss").steps.tolist() == [3] for one in runs.values())
    assert len(list((tmp_path / "logs" / "parent").glob("events.out.tfevents.*"))) == 1


def test_tensorboard_is_not_imported_without_event_files(tmp_path: Path) -> None:
    """It need not even be installed; a name replaces the one of the folder."""
    (tmp_path / "train.py").write_text(SCRIPT)
    done = run(tmp_path, "--name", "mine", "--", sys.executable, "train.py", "alone")
    assert done.returncode == 0, done.stderr
    (only,) = chiplog.runs(tmp_path / "runs")
    assert only.name == "mine" and not (tmp_path / "logs").exists()


def test_a_python_that_ignores_the_path_is_an_error_before_training(tmp_path: Path) -> None:
    """With what to do instead."""
    (tmp_path / "train.py").write_text("open('started', 'w').close()")
    done = run(tmp_path, "--", sys.executable, "-E", "train.py")
    assert done.returncode == 2 and "chiplog.compat.tensorboard" in done.stderr
    assert not (tmp_path / "started").exists()
