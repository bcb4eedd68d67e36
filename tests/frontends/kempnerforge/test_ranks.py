"""KempnerForge on several ranks, started by torchrun as its users do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import chiplog
from tests.sinks.wandb.server import Server
from tests.support.kempnerforge_runs import KEYS, scalars
from tests.support.wandb_runs import environ

SCRIPT = """
import sys
from types import SimpleNamespace as N

import torch.distributed as dist

from chiplog.frontends.kempnerforge.config import MetricsConfig
from chiplog.frontends.kempnerforge.metrics.tracker import MetricsTracker

dist.init_process_group("gloo")
model = N(dim=256, n_layers=4, n_heads=4, vocab_size=1000, max_seq_len=128, ffn_hidden_dim=768)
config = N(metrics=MetricsConfig(enable_wandb=True, enable_tensorboard=True, log_interval=5), model=model, train=N(seq_len=128))
tracker = MetricsTracker(config, num_gpus=dist.get_world_size(), gpu_peak_tflops=989.0)
tracker.init_backends(config)
assert len(tracker._backends) == (2 if dist.get_rank() == 0 else 0)
for step in range(1, 11):
    tracker.start_step()
    tracker.end_step(step, loss=float(step), grad_norm=1.0, lr=1e-3, tokens_in_step=1000)
tracker.log_eval({"eval/loss": 2.5}, step=10)
tracker.close()
assert bool(config.metrics.wandb_run_id) == (dist.get_rank() == 0) and "wandb" not in sys.modules
dist.destroy_process_group()
"""


@pytest.mark.timeout(200)
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_job_of_several_ranks_reports_the_documented_names_and_nothing_else(ranks: int) -> None:
    """One line a step, one run here, at W&B and in TensorBoard, the 14 names and the eval; nothing about ranks."""
    Path("train.py").write_text(SCRIPT)
    server = Server()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", "train.py"],
            env=environ(server, WANDB_SILENT="true"), capture_output=True, text=True, timeout=180, check=True,
        )  # fmt: skip
    finally:
        server.stop()
    (remote,) = server.runs.values()
    assert remote.series("train/loss") == [(1, 1), (5, 5), (10, 10)] and remote.series("eval/loss") == [(10, 2.5)]
    assert {name for row in remote.rows for name in row} - {"step"} == {*KEYS, "eval/loss"}
    assert [line[:27] for line in done.stdout.splitlines()] == [
        "[rank 0] INFO     [step 1] ", "[rank 0] INFO     [step 5] ", "[rank 0] INFO     [step 10]",
        "[rank 0] INFO     [step 10]",
    ]  # fmt: skip
    assert "chiplog" not in done.stderr and "ranks" not in done.stderr
    (run,) = chiplog.runs("runs")
    assert sorted(run.names()) == sorted([*KEYS, "eval/loss"])
    assert [step for step, _ in scalars("tb_logs", "train/loss")] == [1, 5, 10]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    loaded = EventAccumulator("tb_logs")
    loaded.Reload()
    assert sorted(loaded.Tags()["scalars"]) == sorted([*KEYS, "eval/loss"])
