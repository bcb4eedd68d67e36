"""What services cost: a real training loop with W&B, in the relay and on a thread; and the way to MLflow."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import chiplog
from bench.loops import Cost, measure
from bench.rows import Figure, median, row
from tests.sinks.mlflow.server import Server

SDK = ("chiplog", "wandb", "NetStatThr", "ChkStopThr", "IntMsgThr")  # on a thread, its own are part of the price

STEPS, METRICS, LOOP = int(os.environ.get("BENCH_MLFLOW_STEPS", "10000")), 10, 1000


@row
def wandb() -> Iterator[Figure]:
    """A torch CPU loop at about 100 steps/s that logs 20 scalars per step, wandb (offline) on."""
    relay = _cost("auto")
    yield Figure(
        "steps per second, nothing logged", relay.steps / median(relay.plain), "/s", note=f"{os.cpu_count()} cores"
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


@row
def mlflow() -> Iterator[Figure]:
    """100,000 points to an MLflow server on SQLite, from `init` until the server has all of them."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "server").start()
        try:
            yield from _measure(server, folder)
        finally:
            server.send(signal.SIGKILL)


def _measure(server: Server, folder: str) -> Iterator[Figure]:
    each = _loop(server)
    began = time.perf_counter()
    options = {"uri": server.uri, "experiment": "bench", "system": False}
    run = chiplog.init("bench", sinks={"mlflow": options}, dir=folder, alerts=False, compact=False)
    for step in range(STEPS):
        run.log({f"train/metric_{number}": step * number / 7 for number in range(METRICS)}, step=step)
    logged = time.perf_counter() - began
    assert run.finish(timeout=3600)
    taken = time.perf_counter() - began
    assert server.run("bench").count() == STEPS * METRICS
    points = STEPS * METRICS
    yield Figure("logging them, the training's part", logged, "s")
    yield Figure("all at the server, start of the relay included", taken, "s")
    yield Figure(f"mlflow.log_metric, {LOOP:,} timed and scaled", each * points, "s")
    yield Figure("  times faster", each * points / taken, "x", 20, at_least=True)


def _loop(server: Server) -> float:
    """Seconds a point, with MLflow's own call."""
    import mlflow

    mlflow.set_tracking_uri(server.uri)
    with mlflow.start_run():
        mlflow.log_metric("warm", 0.0, step=0)
        began = time.perf_counter()
        for step in range(LOOP):
            mlflow.log_metric("train/loss", step / 7, step=step)
        return (time.perf_counter() - began) / LOOP
