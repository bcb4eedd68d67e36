"""100,000 points to a real MLflow server: through the sink, and by `mlflow.log_metric` in a loop."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import chiplog
from bench.rows import Figure, row
from tests.sinks.mlflow_server import Server

STEPS, METRICS, LOOP = int(os.environ.get("BENCH_MLFLOW_STEPS", "10000")), 10, 1000


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
