"""What the integrations of frameworks cost, compared with `run.log`, and what many open runs cost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from types import SimpleNamespace

import chiplog
from bench.rows import Figure, interleaved, median, ratio, row
from bench.workers import metrics_of

COMPARED = ("transformers", "lightning")  # with W&B's client


@row
def integrations() -> Iterator[Figure]:
    """A row of 10 scalars through the hooks of frameworks, next to `run.log`, in one process."""
    import wandb
    from transformers.integrations import WandbCallback

    from chiplog.integrations.accelerate import ChiplogTracker
    from chiplog.integrations.lightning import ChiplogLogger
    from chiplog.integrations.transformers import ChiplogCallback

    metrics = {name.replace("/", "_"): value for name, value in metrics_of(10).items()}
    state = SimpleNamespace(is_world_process_zero=True, global_step=100)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"CHIPLOG_COMPACT": "false", "WANDB_SILENT": "true"}
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
        quiet = wandb.Settings(silent=True, console="off", x_disable_stats=True)
        for_wandb = WandbCallback()  # with what it does around `wandb.log`
        for_wandb._initialized = True
        original = wandb.init(project="bench", mode="offline", dir=folder, settings=quiet)
        theirs = interleaved(
            {
                "transformers": lambda: callback.on_log(None, state, None, logs=metrics),
                "lightning": lambda: logger.log_metrics(metrics=metrics, step=100),
                "wandb.log": lambda: original.log(metrics),
                "on_log for W&B": lambda: for_wandb.on_log(None, state, None, logs=metrics),
            },
            calls_each=200,
            rounds=15,
        )
        original.finish()
        run.finish()
        del os.environ["CHIPLOG_COMPACT"], os.environ["WANDB_SILENT"]
    yield Figure("run.log", median(taken["run.log"]), "µs")
    titles = {
        "transformers": "on_log of the callback for transformers",
        "lightning": "log_metrics of the logger for Lightning",
        "accelerate": "log of the tracker for Accelerate",
    }
    for name, title in titles.items():
        yield Figure(title, median(taken[name]), "µs")
        yield Figure("  times run.log", ratio(taken, name, "run.log"), "x", 1.5)
        if name in COMPARED:
            yield Figure("  times cheaper than wandb.log", ratio(theirs, "wandb.log", name), "x", 20, at_least=True)
    cheaper = ratio(theirs, "on_log for W&B", "transformers")
    yield Figure("on_log for transformers: times cheaper than that of its callback for W&B", cheaper, "x")


# In a process of its own, in which nothing else takes memory or time.
OPEN_RUNS = """
import re, sys, threading, time
from pathlib import Path
import chiplog

def memory():
    return int(re.search(r"^Pss: +(\\d+)", Path("/proc/self/smaps_rollup").read_text(), re.M)[1])

def opened():
    run = chiplog.init("bench", sinks="none", dir=sys.argv[1], beside=True)
    run.log({"loss": 1.0}, 0)
    return run

first = chiplog.init("bench", sinks="none", dir=sys.argv[1])
first.log({"loss": 1.0}, 0)
time.sleep(6)  # what starts with a run has ended
threads = threading.active_count()
runs = [opened() for _ in range(4)]  # what only the first run beside another needs
before = memory()
runs += [opened() for _ in range(200)]
after = memory()
time.sleep(6)
threads = threading.active_count() - threads
began = time.process_time()
time.sleep(20)
print(threads, (after - before) / 200, (time.process_time() - began) / 20 * 100)
"""


@row
def open_runs() -> Iterator[Figure]:
    """200 runs open in one process, such as one per trial of a search, compared with one."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", OPEN_RUNS, folder], check=True, capture_output=True, text=True,
            env={**os.environ, "CHIPLOG_COMPACT": "false"},
        )  # fmt: skip
    threads, memory, processor = map(float, done.stdout.split())
    yield Figure("threads more than one run has", threads, "", 1)
    yield Figure("memory of each", memory, "kB", 150)
    yield Figure("processor while nothing is logged, of one core", processor, "%", 0.5)
