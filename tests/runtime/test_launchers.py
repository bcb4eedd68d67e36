"""Ranks as launchers start them: torchrun, mpirun, jax.distributed and srun, each for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import chiplog
from tests.runtime.slurm import free_port, slurm

SCRIPT = str(Path(__file__).parent / "launched.py")
CLEAN = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(("CHIPLOG_", "SLURM_", "OMPI_", "PMI", "RANK", "WORLD"))
} | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}

pytestmark = pytest.mark.timeout(120)


def start(words: Sequence[str], **environ: str) -> None:
    done = subprocess.run(words, env={**CLEAN, **environ}, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def told(folder: Path, world: int) -> list[dict[str, Any]]:
    """What each rank left; all have been in one run of one launch."""
    ranks: list[dict[str, Any]] = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]
    assert [(rank["rank"], rank["world"]) for rank in ranks] == [(rank, world) for rank in range(world)]
    assert len({(rank["dir"], rank["launch"]) for rank in ranks}) == 1
    matrix = chiplog.read(ranks[0]["dir"]).series("x").by_rank()
    assert matrix.values.tolist() == [[float(step + rank) for rank in range(world)] for step in range(20)]
    return ranks


def check_statistics(ranks: list[dict[str, Any]]) -> None:
    """Rank 0's row, and the statistics that came later."""
    row = ranks[0]["sync"]
    assert (row["x/mean"], row["x/std"]) == (123456789.5, 0.5)
    assert row["of/1/count"] == 1
    assert ranks[1]["sync"] == {"x": 123456790, "of/1": 1.0}
    assert ranks[0]["id"] == ranks[1]["id"]
    mean = chiplog.read(ranks[0]["dir"]).series("x/mean")
    assert mean.values.tolist() == [step + 0.5 for step in mean.steps] and len(mean) == 20


def test_torchrun(tmp_path: Path) -> None:
    """torch.distributed over gloo."""
    start([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}", SCRIPT,
           str(tmp_path), "torch"])  # fmt: skip
    check_statistics(told(tmp_path, 2))


def test_mpirun(tmp_path: Path) -> None:
    """MPI, by mpi4py, without torch."""
    start(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, SCRIPT, str(tmp_path), "mpi"])
    check_statistics(told(tmp_path, 2))


def test_jax_with_two_processes(tmp_path: Path) -> None:
    """JAX, by its coordinator."""
    port = free_port()
    environ = {**CLEAN, "JAX_PLATFORMS": "cpu", "COORDINATOR": f"127.0.0.1:{port}", "WORLD": "2"}
    words = [sys.executable, SCRIPT, str(tmp_path), "jax"]
    ranks = [
        subprocess.Popen(words, env={**environ, "ME": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=100)[0].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)
    check_statistics(told(tmp_path, 2))


def test_srun(tmp_path: Path) -> None:
    """Slurm: journals on all ranks need no collective, and the job says which run it is."""
    with tempfile.TemporaryDirectory(prefix="slurm", dir="/tmp") as folder, slurm(Path(folder)) as environ:
        words = ["srun", "-n", "2", "--overcommit", sys.executable, SCRIPT, str(tmp_path), "none"]
        done = subprocess.run(
            words, env={**CLEAN, **environ}, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    ranks = told(tmp_path, 2)
    assert Path(ranks[0]["dir"]).name == "1" and ranks[0]["launch"].startswith("1-")
