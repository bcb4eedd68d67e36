"""What the stand-ins for other trackers cost, compared with `run.log` and the original."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import chiplog
import chiplog.compat.wandb as stand_in
from bench.rows import Figure, interleaved, median, ratio, row
from bench.workers import metrics_of


@row
def stand_in_wandb() -> Iterator[Figure]:
    """`wandb.log` of 10 scalars through the stand-in, next to `run.log` and the original, offline, in one process."""
    import wandb as original

    metrics = metrics_of(10)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CHIPLOG_COMPACT"] = "false"
        run = chiplog.init("bench", sinks="none", dir=folder, id="own", durability="process", compact=False)
        quiet = {"CHIPLOG_DIR": folder, "WANDB_SILENT": "true", "CHIPLOG_DURABILITY": "process"}
        os.environ.update(quiet)
        kept = stand_in.init(project="bench", settings=stand_in.Settings(console="off"))
        framework: Any = stand_in.init(project="bench", reinit="create_new", settings=stand_in.Settings(console="off"))
        framework.define_metric("train/step")
        framework.define_metric("*", step_metric="train/step")
        settings = original.Settings(silent=True, console="off", x_disable_stats=True)
        real = original.init(project="bench", mode="offline", dir=folder, settings=settings)
        with_step = {**metrics, "train/step": 1}
        taken = interleaved(
            {
                "run.log": lambda: run.log(metrics, step=100),
                "stand-in": lambda: stand_in.log(metrics),
                "framework": lambda: framework.log(with_step),
            },
            calls_each=2000,
            rounds=31,
        )
        theirs = interleaved(
            {"stand-in": lambda: stand_in.log(metrics), "real": lambda: original.log(metrics)},
            calls_each=200,
            rounds=15,
        )
        real.finish()
        framework.finish()
        kept.finish()
        run.finish()
        for name in ("CHIPLOG_COMPACT", *quiet):
            del os.environ[name]
    yield Figure("run.log", median(taken["run.log"]), "µs")
    yield Figure("wandb.log of the stand-in", median(taken["stand-in"]), "µs")
    yield Figure("  times run.log", ratio(taken, "stand-in", "run.log"), "x", 1.5)
    yield Figure("  with the metrics that transformers defines", median(taken["framework"]), "µs")
    yield Figure("wandb.log of W&B, offline", median(theirs["real"]), "µs")
    yield Figure("  times the stand-in", ratio(theirs, "real", "stand-in"), "x", 20, at_least=True)
