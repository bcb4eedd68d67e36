"""What a service costs a real training loop: in the relay process, and on a thread of the training."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import chiplog
from bench.loops import Cost, measure
from bench.rows import Figure, median, row

SDK = ("chiplog", "wandb", "NetStatThr", "ChkStopThr", "IntMsgThr")  # on a thread, its own are part of the price


@row
def wandb() -> Iterator[Figure]:
    """A torch CPU loop at about 100 steps/s that logs 20 scalars a step, wandb (offline) on."""
    relay = _cost("auto")
    yield Figure(
        "steps a second, nothing logged", relay.steps / median(relay.plain), "/s", note=f"{os.cpu_count()} cores"
    )
    yield from relay.figures("our cost in the training process, wandb in the relay")
    thread = _cost("thread")
    yield from thread.figures("our cost together, wandb on a thread", bar=None)


def _cost(relay: str) -> Cost:
    """Of the loop with the sink at work: the first rows are in its file when the measurement begins."""
    with tempfile.TemporaryDirectory() as folder:
        sinks = {"wandb": {"mode": "offline"}}
        run = chiplog.init("bench", sinks=sinks, dir=folder, relay=relay, compact=False)
        run.log({"train/loss": 0.0}, step=0)
        deadline = time.monotonic() + 60
        while not list(Path(run.dir).glob("files/wandb/offline-run-*/run-*.wandb")) and time.monotonic() < deadline:
            time.sleep(0.1)
        cost = measure(run, SDK if relay == "thread" else ("chiplog",))
        run.finish(timeout=60)
    return cost
