"""What the integrations of frameworks cost, compared with `run.log`, and what many open runs cost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from types import SimpleNamespace

import chiplog
from bench.rows import Figure, interleaved, median, ratio, row
from bench.workers import metrics_of


@row
def integrations() -> Iterator[Figure]:
    """A row of 10 scalars through the hooks of frameworks, next to `run.log`, in one process."""
    from chiplog.integrations.accelerate import ChiplogTracker
    from chiplog.integrations.lightning import ChiplogLogger
    from chiplog.integrations.transformers import ChiplogCallback

    metrics = {name.replace("/", "_"): value for name, value in metrics_of(10).items()}
    state = SimpleNamespace(is_world_process_zero=True, global_step=100)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CHIPLOG_COMPACT"] = "false"
        run = chiplog.init("bench", sinks="none", dir=folder, durability="process", compact=False)
        callback, logger, tracker = ChiplogCallback(run), ChiplogLogger(run), ChiplogTracker("bench", run)
        taken = interleaved(
            {
                "run.log": lambda: run.log(metrics, step=100),
                "transformers": lambda: callback.on_log(None, state, None, logs=metrics),
                "lightning": lambda: logger.log_metrics(metrics=metrics, step=100),
                "accelerate": lambda: tracker.log(metrics, step=100),
            },
            calls_each=2000,
            rounds=31,
        )
        run.finish()
        del os.environ["CHIPLOG_COMPACT"]
    yield Figure("run.log", median(taken["run.log"]), "µs")
    titles = {
        "transformers": "on_log of the callback for transformers",
        "lightning": "log_metrics of the logger for Lightning",
        "accelerate": "log of the tracker for Accelerate",
    }
    for name, title in titles.items():
        yield Figure(title, median(taken[name]), "µs")
        yield Figure("  times run.log", ratio(taken, name, "run.log"), "x", 1.5)
