"""Ranks as launchers start them: torchrun, mpirun, jax.distributed and srun, each for real."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chiplog
from chiplog.core import records
from tests.runtime.ranks.slurm import slurm
from tests.support.launchers import CLEAN, start, start_jax
from tests.support.ports import free_port
from tests.support.waiting import wait_for

SCRIPT = str(Path(__file__).parent / "launched.py")
LEAVING = str(Path(__file__).parent / "leaving.py")

pytestmark = pytest.mark.timeout(120)


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


APART = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # else its own gloo looks for the ranks before


def elastic(*options: str, port: int, words: Sequence[str]) -> list[str]:
    """torchrun, which starts ranks again."""
    return [sys.executable, "-m", "torch.distributed.run", *options, "--monitor-interval=0.1", "--rdzv-backend=c10d",
            f"--rdzv-endpoint=127.0.0.1:{port}", str(Path(SCRIPT).parent / "elastic.py"), *words]  # fmt: skip


@pytest.mark.timeout(300)
def test_torchrun_starts_again(tmp_path: Path) -> None:
    """A worker dies at step 12, and torchrun restarts both, from the checkpoint of step 10.

    They are two launches of one run: the view has the newer one from its first step on, on both ranks.
    """
    start(elastic("--nproc-per-node=2", "--max-restarts=1", port=free_port(), words=(str(tmp_path), "dies")), **APART)
    stored = chiplog.read(tmp_path / "p" / "job7")
    matrix = stored.series("x").by_rank()
    older = [[10.0 * step + rank for rank in range(2)] for step in range(10)]
    newer = [[100_000.0 + 10 * step + rank for rank in range(2)] for step in range(10, 20)]
    assert matrix.steps.tolist() == list(range(20)) and matrix.values.tolist() == older + newer
    launches = [one.launch for one in stored.records("attempt") if isinstance(one, records.Attempt)]
    assert len(launches) == 4 and len(set(launches)) == 2
    mean = stored.series("x/mean")
    again = [(step, value) for step, value in zip(mean.steps.tolist(), mean.values.tolist(), strict=True) if step >= 10]
    assert again == [(step, 100_000.5 + 10 * step) for step in range(10, 20)]
    assert stored.state == "finished"


@pytest.mark.timeout(300)
def test_torchrun_goes_on_with_more_ranks(tmp_path: Path) -> None:
    """A third node joins two: torchrun ends their ranks and starts three, which it does not count as a restart."""
    port, options = (
        free_port(),
        ("--nnodes=2:3", "--nproc-per-node=1", "--rdzv-id=job", "--rdzv-conf=last_call_timeout=2"),
    )
    words = elastic(*options, port=port, words=(str(tmp_path), "grows"))
    nodes: list[subprocess.Popen[str]] = []
    try:
        for number in range(3):
            if number == 2:
                wait_for((tmp_path / "checkpoint").exists, 120, "two ranks that train")
            nodes.append(
                subprocess.Popen(
                    words, env={**CLEAN, **APART}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
            )
        said = [node.communicate(timeout=150)[0] for node in nodes]
        assert [node.returncode for node in nodes] == [0, 0, 0], said
    finally:
        for node in nodes:
            node.terminate()
    stored = chiplog.read(tmp_path / "p" / "job7")
    matrix = stored.series("x").by_rank()
    (grown,) = np.flatnonzero(np.diff(np.isnan(matrix.values[:, 2]))) + 1
    assert grown % 10 == 0 and matrix.steps.tolist() == list(range(grown + 21))
    assert matrix.values[:grown, :2].tolist() == [
        [2e5 + 10 * step + rank for rank in range(2)] for step in range(grown)
    ]
    assert matrix.values[grown:].tolist() == [
        [3e5 + 10 * step + rank for rank in range(3)] for step in range(grown, grown + 21)
    ]
    mean = stored.series("x/mean")
    assert mean.values[mean.steps >= grown].tolist() == [3e5 + 10 * step + 1 for step in range(grown, grown + 21)]
    assert stored.state == "finished"


def test_mpirun(tmp_path: Path) -> None:
    """MPI, by mpi4py, without torch."""
    start(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, SCRIPT, str(tmp_path), "mpi"])
    check_statistics(told(tmp_path, 2))


def test_jax_with_two_processes(tmp_path: Path) -> None:
    """JAX, by its coordinator."""
    start_jax(2, SCRIPT, str(tmp_path), "jax")
    check_statistics(told(tmp_path, 2))


def test_jax_goes_on_without_a_rank_that_has_finished(tmp_path: Path) -> None:
    """The others' statistics are of the others, from the next round on."""
    start_jax(3, LEAVING, str(tmp_path), "jax", '"y/mean":0.5')
    stored = chiplog.read(tmp_path / "p" / "leaving")
    assert stored.series("x/mean").values.tolist() == [1.0] * 10
    mean, count = stored.series("y/mean"), stored.series("y/count")
    alone = count.steps[count.values == 1]  # where one of them had not logged yet, or had ended
    both = mean.values[~np.isin(mean.steps, alone)]
    assert len(both) and set(both) == {0.5}


def test_mpi_does_not_and_says_so(tmp_path: Path) -> None:
    """A gather of MPI needs everybody: a gap is marked that has no end, and rows are as rank 0 logged them."""
    start(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, LEAVING, str(tmp_path), "mpi",
           '"gap"'])  # fmt: skip
    stored = chiplog.read(tmp_path / "p" / "leaving")
    assert stored.series("x/mean").values.tolist() == [0.5] * 10 and set(stored.series("y/count").values) <= {1}
    assert len(stored.series("y")) == int((tmp_path / "seen").read_text()) - 10
    gaps = [one.data for one in stored.records("event") if isinstance(one, records.Event) and one.name == "gap"]
    assert gaps[0]["reason"] == "not all ranks came within 1 s; finished: 1" and not any("until" in gap for gap in gaps)
    assert stored.state == "finished" and stored.missing == {}


def test_srun(tmp_path: Path) -> None:
    """Slurm: journals on all ranks need no collective, and the job says which launch it is."""
    with tempfile.TemporaryDirectory(prefix="slurm", dir="/tmp") as folder, slurm(Path(folder)) as environ:
        words = ["srun", "-n", "2", "--overcommit", sys.executable, SCRIPT, str(tmp_path), "none"]
        done = subprocess.run(
            words, env={**CLEAN, **environ}, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    ranks = told(tmp_path, 2)
    assert ranks[0]["dir"] == ranks[1]["dir"] and ranks[0]["launch"].startswith("1-")
