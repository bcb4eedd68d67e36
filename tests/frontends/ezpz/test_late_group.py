"""Histories that begin before there is a process group, or where there never is one."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chiplog.frontends.ezpz import History
from tests.faults.harness import FULL
from tests.support.ports import free_port

ROOT = Path(__file__).parents[3]
SCRIPT = """
import json, sys
from pathlib import Path
from chiplog.frontends import ezpz

history = ezpz.History(report_dir="report")
rank = ezpz.setup_torch()
for step in range(3):
    history.update({"loss": 1.0 + rank})
history.finalize(outdir="out", plot=False)
"""


@pytest.mark.parametrize(
    "launcher",
    [
        {"SLURM_NTASKS": "2", "SLURM_PROCID": "0"},
        {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
        {"WORLD_SIZE": "2", "RANK": "0"},
    ],
)
def test_one_process_of_a_larger_job_works_and_is_warned(
    launcher: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a shell of sbatch: no statistics, one warning that says what to call, and everything else."""
    monkeypatch.chdir(tmp_path)
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    history = History()
    with caplog.at_level(logging.WARNING):
        lines = [history.update({"loss": 0.5}, step=step) for step in range(3)]
    history.finalize(outdir="out", plot=False)
    assert lines == ["loss=0.500000"] * 3
    warned = [record.getMessage() for record in caplog.records if "ezpz.setup_torch()" in record.getMessage()]
    assert len(warned) == 1 and "2 processes" in warned[0]
    rows = [json.loads(line)["metrics"] for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert rows == [{"loss": 0.5}] * 3


@pytest.mark.parametrize("world", [2, 4] if FULL else [4])
def test_a_group_that_is_there_by_the_first_update_is_enough(world: int, tmp_path: Path) -> None:
    """The history began before it, and its rows have statistics of all ranks."""
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={world}"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, f"--master-port={free_port()}", "train.py"],
        cwd=tmp_path,
        env=environ,
        check=True,
        timeout=110,
        capture_output=True,
        text=True,
    )
    rows = [json.loads(line)["metrics"] for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [row.get("loss/mean") for row in rows] == [(world + 1) / 2] * 3, done.stderr
