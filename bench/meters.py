"""What a measured step costs the training: unlogged, and logged with TensorBoard on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chiplog
from bench.rows import Figure, interleaved, median, ratio, row
from chiplog.frontends.kempnerforge import MetricsConfig, MetricsTracker

MODEL = SimpleNamespace(
    dim=4096, n_layers=32, n_heads=32, n_kv_heads=8, head_dim=128, vocab_size=32000, max_seq_len=2048,
    computed_ffn_hidden_dim=11008, is_moe=False,
)  # fmt: skip
NEVER = 10**9  # steps between two rows


def tracker_of(**metrics: Any) -> MetricsTracker:
    config = SimpleNamespace(metrics=MetricsConfig(**metrics), model=MODEL, train=SimpleNamespace(seq_len=2048))
    tracker = MetricsTracker(config, gpu_peak_tflops=989)
    tracker.init_backends(config)
    return tracker


@row
def end_step() -> Iterator[Figure]:
    """The end of a step that makes no row: dense model, MFU and averages kept, on a CPU."""
    tracker = tracker_of(log_interval=NEVER)

    def step() -> None:
        tracker.start_step()
        tracker.end_step(3, 2.5, 1.0, 3e-4, 16384)

    def counted_every_time() -> None:
        tracker._flops = None
        step()

    metrics = {"train/loss": 2.5, "train/grad_norm": 1.0, "train/lr": 3e-4}
    with tempfile.TemporaryDirectory() as folder:
        run = chiplog.init("bench", sinks="none", dir=folder, compact=False)
        run.meter(flops_per_token=42_863_689_728, peak_tflops=989.0, log_every=NEVER, total_steps=NEVER)

        def own() -> None:
            run.start_step(3)
            run.end_step(metrics, tokens=16384)

        taken = interleaved({"counted": counted_every_time, "step": step, "own": own}, calls_each=2000, rounds=21)
        run.finish()
    yield Figure("KempnerForge's end_step", median(taken["step"]), "µs", 15)
    yield Figure("the same, operations counted every time", median(taken["counted"]), "µs")
    yield Figure("  times cheaper", ratio(taken, "counted", "step"), "x", 2, at_least=True)
    yield Figure("run.end_step, a row every so often", median(taken["own"]), "µs", 15)


# Each prints the median microseconds of a step that logs 14 scalars, one after the other.
_TIMED = """
import os, statistics, sys, time
os.chdir(sys.argv[1])
def timed(call, steps=400):
    taken = []
    for step in range(steps):
        began = time.perf_counter()
        call(step)
        taken.append((time.perf_counter() - began) * 1e6)
    print("median", statistics.median(taken), file=sys.stderr)
"""
_OURS = (
    _TIMED
    + """
from bench.meters import tracker_of
tracker = tracker_of(log_interval=1, enable_tensorboard=True)
def call(step):
    tracker.start_step()
    tracker.end_step(step, 2.5, 1.0, 3e-4, 16384)
call(0)
timed(call)
tracker.close()
"""
)
_THEIRS = (
    _TIMED
    + """
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter("theirs")
names = [f"train/metric_{number}" for number in range(14)]
def call(step):
    for name in names:
        writer.add_scalar(name, 2.5, global_step=step)
    if sys.argv[2] == "flushed":
        writer.flush()
call(0)
timed(call)
"""
)


@row
def logged_step() -> Iterator[Figure]:
    """The end of a step that makes a row of 14 scalars and a line, TensorBoard on: the caller's thread."""
    taken: dict[str, list[float]] = {"ours": [], "flushed": [], "queued": []}
    for _ in range(5):
        for name, times in taken.items():
            with tempfile.TemporaryDirectory() as folder:
                times.append(_told(_OURS if name == "ours" else _THEIRS, folder, name))
    yield Figure("end_step, its line and its row", median(taken["ours"]), "µs")
    yield Figure("14 scalars by torch's SummaryWriter, flushed", median(taken["flushed"]), "µs")
    yield Figure("  times chiplog", ratio(taken, "flushed", "ours"), "x", 20, at_least=True)
    yield Figure("the same, left in its queue of ten", median(taken["queued"]), "µs")
    yield Figure("  times chiplog", ratio(taken, "queued", "ours"), "x")


def _told(code: str, *words: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(one).absolute()) for one in sys.path if one)},
    )
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("median ")]
    return float(said.split()[1])
