"""Surogate's logger on several ranks, started by torchrun."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import chiplog
from tests.frontends.surogate.logs import read

SCRIPT = """
import sys

import torch.distributed as dist

from chiplog.frontends.surogate import _surogate

dist.init_process_group("gloo")
for name, more in (("plain", {}), ("asked", {"reduce": True})):
    called = []
    logger = _surogate.TrainingRunLogger(f"output/{name}.json", callback=called.append, **more)
    for step in range(3):
        logger.log_step(step, 0.125, 16384, 156, 0.1234, 2.5 - step / 10, 2e-4)
    logger.log_eval(3, 0.125, 32768, 234, 2.4)
    dist.barrier()
    logger.close()
    assert len(called) == (4 if dist.get_rank() == 0 else 0), (dist.get_rank(), called)
dist.destroy_process_group()
"""


@pytest.mark.timeout(200)
@pytest.mark.parametrize("ranks", [2, 4])
def test_on_several_ranks_the_log_holds_surogates_own_records(ranks):
    """Each eval has its loss, the console shows those lines and no other; also where statistics are asked for."""
    Path("train.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", "train.py"],
        capture_output=True, text=True, timeout=180, check=True,
    )  # fmt: skip
    for name in ("plain", "asked"):
        found = read(f"output/{name}.json")
        assert [(record["log"], record["loss"]) for record in found] == [
            ("step", 2.5), ("step", 2.4), ("step", 2.3), ("eval", 2.4),
        ]  # fmt: skip
    assert sorted(path.name for path in Path("output").iterdir()) == ["asked.json", "plain.json"]
    lines = done.stdout.splitlines()
    assert [line[:7] for line in lines] == [":: step", ":: step", ":: step", ">> eval"] * 2
    assert all("loss 2." in line for line in lines) and "chiplog" not in done.stderr
    runs = {run.id.split("-")[0]: run for run in chiplog.runs("runs", "surogate")}
    assert "train/loss/mean" not in runs["plain"].names() and "train/loss/mean" in runs["asked"].names()
