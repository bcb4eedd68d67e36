"""Every example of the documentation, with only its import line changed; a training step stands where one is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontends.ezpz.scripts import run_script

BEFORE = """
import logging
from pathlib import Path
import torch
logger = logging.getLogger("train")
model = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10))
step, t_forward, dt, batch, seq, device = 3, 0.1, 0.5, 2, 8, "cpu"
loss = torch.tensor(0.42)
def train_step(*_): return loss
"""

EXAMPLES = {
    "quick start": """
from chiplog.frontends import ezpz

rank = ezpz.setup_torch()
history = ezpz.History(
    project_name="my-project",
    backends="wandb,csv",
    outdir="./outputs",
    config={"lr": 1e-4, "batch_size": 32},
)
for step in range(100):
    loss = train_step(...)
    summary = history.update({"loss": loss.item()}, step=step)
    logger.info(summary)  # "loss=0.420000"
if rank == 0:
    history.finalize(outdir="./outputs")

assert summary == "loss=0.420000"
assert {"dataset.h5", "report.md", "metrics.jsonl", "metrics.csv", "config.json", "training_history.csv"} <= {
    path.name for path in Path("outputs").iterdir()
}
""",
    "after": """
from chiplog.frontends.ezpz import History

history = History(project_name="my-project", backends="csv")
history.update({"loss": 0.42}, step=step)
""",
    "constructor": """
from chiplog.frontends.ezpz import History

history = History(
    # --- Local outputs ---
    distributed_history=True,  # aggregate stats across ranks (default: auto)
    report_dir="./outputs/history",  # markdown report directory
    jsonl_path="./metrics.jsonl",  # per-step JSONL log
    # --- External backends ---
    project_name="my-project",  # passed to wandb
    backends="csv",  # comma-separated or list
    config={"lr": 1e-4},  # run-level hyperparameters
    outdir="./outputs",  # directory for file-based backends
)
summary = history.update(
    {"loss": 0.42, "lr": 1e-3},
    step=42,  # forwarded to tracker backends
    precision=6,  # decimal places in summary string
)
assert summary == "loss=0.420000 lr=0.001000"
result = history.finalize(
    outdir="./outputs",
    run_name="my-experiment",
    warmup=0.05,  # drop first 5% of samples
    num_chains=128,  # chains in ridge plots
)
result.data_vars  # xr.Dataset directly
""",
    "memory": """
from chiplog.frontends import ezpz
history = ezpz.History()

metrics = {"loss": loss.item(), "dtf": t_forward}
metrics |= ezpz.get_memory_metrics(device, prefix="train/")
summary = history.update(metrics)
assert summary == "loss=0.420000 dtf=0.100000"
""",
    "throughput": """
from chiplog.frontends.ezpz import History
from chiplog.frontends.ezpz.flops import compute_mfu, try_estimate
history = History()

model_flops = try_estimate(model, input_shape=(batch, seq))
# ... per step:
history.update({
    "loss": loss.item(),
    "tflops": model_flops / dt / 1e12,
    "mfu": compute_mfu(model_flops, dt),
})
assert history.history["tflops"][0] > 0
""",
    "csv": """
from chiplog.frontends.ezpz import History

history = History(backends="csv", outdir="./logs")
history.update({"loss": 0.5, "lr": 1e-4})
history.update({"loss": 0.3, "lr": 1e-4, "grad_norm": 0.8})  # columns auto-extend
history.run.finish()
header, first, second = Path("logs/metrics.csv").read_text().splitlines()
assert header == "step,time,loss,lr,grad_norm" and first.endswith(",") and second.endswith(",0.8")
""",
    "custom": """
from chiplog.frontends.ezpz import History
from chiplog.frontends.ezpz.tracker import TrackerBackend, register_backend

class MyBackend(TrackerBackend):
    name = "my_backend"

    def __init__(self, **kwargs):
        self.entries = []

    def log(self, metrics, step=None, commit=True):
        self.entries.append(metrics)

    def log_config(self, config):
        pass

    def finish(self):
        pass

register_backend("my_backend", MyBackend)

# Now usable in History
history = History(backends="my_backend,csv", outdir="./logs")
history.update({"loss": 0.5})
history.run.finish()
assert history.tracker.get_backend("my_backend").entries == [{"loss": 0.5}]
""",
    "grouped": """
from chiplog.frontends.ezpz import History
history = History()
history.update({"train/loss": 1.0})
history.update({"eval/acc": 0.5})

result = history.finalize(outdir="./outputs")
# Grouped (train/ + eval/ prefixes):
result["train"]  # xr.Dataset with train metrics
result["eval"]  # xr.Dataset with eval metrics
""",
    "stopwatch": """
from chiplog.frontends.ezpz.history import History, StopWatch
history = History()

with StopWatch("forward pass", wbtag="timing/forward"):
    output = model(torch.zeros(2, 8, dtype=torch.long))
assert len(history.history["StopWatch/timing/forward/dt"]) == 1
""",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    """As a person would run it."""
    assert "Traceback" not in run_script(BEFORE + EXAMPLES[name], tmp_path)
