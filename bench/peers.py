"""The trackers chiplog is measured against, each in its own environment.

A peer is the way its documentation says to log a row of scalars offline. It runs in two places: in the benchmark, which
makes the environments, and in a worker inside each of them, so it imports nothing at its top that they lack.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HOME = Path(__file__).parents[1] / ".venv" / "peers"
Log = Callable[[dict[str, float], int], Any]
Begun = tuple[Log, Callable[[], Any]]  # log a row at a step; end the run


class Peer(NamedTuple):
    """One way to log. Peers with the same packages share an environment; without any it is the benchmark's own."""

    title: str
    module: str
    packages: tuple[str, ...]
    begin: Callable[[Path], Begun]


def _chiplog(folder: Path) -> Begun:
    import chiplog

    run = chiplog.init("bench", sinks="jsonl", dir=folder, durability="process", compact=False)
    return run.log, run.finish


def _wandb(folder: Path) -> Begun:
    import wandb

    run = wandb.init(project="bench", mode="offline", dir=str(folder), settings=wandb.Settings(silent=True))
    return lambda metrics, step: run.log(metrics, step=step), run.finish


def _summary_writer(writer: Any) -> Begun:
    def log(metrics: dict[str, float], step: int) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)

    return log, writer.close


def _tensorboard(folder: Path) -> Begun:
    from torch.utils.tensorboard import SummaryWriter

    return _summary_writer(SummaryWriter(str(folder)))


def _tensorboardx(folder: Path) -> Begun:
    from tensorboardX import SummaryWriter

    return _summary_writer(SummaryWriter(str(folder)))


def _mlflow(uri: str) -> Begun:
    import mlflow

    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("bench")
    mlflow.start_run()
    return lambda metrics, step: mlflow.log_metrics(metrics, step=step), mlflow.end_run


def _mlflow_file(folder: Path) -> Begun:
    return _mlflow(folder.as_uri())


def _mlflow_sqlite(folder: Path) -> Begun:
    return _mlflow(f"sqlite:///{folder}/mlflow.db")


def _aim(folder: Path) -> Begun:
    from aim import Run

    run = Run(repo=str(folder), system_tracking_interval=None, capture_terminal_logs=False)

    def log(metrics: dict[str, float], step: int) -> None:
        for name, value in metrics.items():
            run.track(value, name=name, step=step)

    return log, run.close


def _trackio(folder: Path) -> Begun:
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio

    run = trackio.init(project="bench", embed=False)
    return lambda metrics, step: run.log(metrics, step=step), trackio.finish


def _swanlab(folder: Path) -> Begun:
    import swanlab

    run = swanlab.init(project="bench", mode="offline", logdir=str(folder))
    return lambda metrics, step: run.log(metrics, step=step), swanlab.finish


def _hundred_spans(span: Callable[[str], Any]) -> Log:
    """A hundred spans in place of a row, so that the call around them does not count."""

    def log(_: dict[str, float], __: int) -> None:
        for _ in range(100):
            with span("forward"):
                pass

    return log


def _chiplog_span(folder: Path) -> Begun:
    import chiplog

    run = chiplog.init("bench", sinks="none", dir=folder, durability="process", compact=False)
    return _hundred_spans(run.span), run.finish


def _otel_span(folder: Path) -> Begun:  # noqa: ARG001
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    return _hundred_spans(provider.get_tracer("bench").start_as_current_span), provider.shutdown


_MLFLOW = ("mlflow==3.17.2",)
PEERS = {
    "chiplog": Peer("chiplog", "chiplog", (), _chiplog),
    "trackio": Peer("trackio", "trackio", ("trackio==0.43.0",), _trackio),
    "swanlab": Peer("SwanLab, offline", "swanlab", ("swanlab==0.10.3",), _swanlab),
    "wandb": Peer("W&B, offline", "wandb", ("wandb==0.31.0",), _wandb),
    "tensorboard": Peer(
        "TensorBoard (torch)", "torch.utils.tensorboard", ("torch==2.13.0", "tensorboard==2.21.0"), _tensorboard
    ),
    "tensorboardx": Peer("tensorboardX", "tensorboardX", ("tensorboardX==2.6.5",), _tensorboardx),
    "aim": Peer("Aim", "aim", ("aim==3.29.1",), _aim),
    "mlflow_file": Peer("MLflow, files", "mlflow", _MLFLOW, _mlflow_file),
    "mlflow_sqlite": Peer("MLflow, SQLite", "mlflow", _MLFLOW, _mlflow_sqlite),
}
TRACERS = {
    "chiplog_span": Peer("chiplog", "chiplog", (), _chiplog_span),
    "otel_span": Peer("OpenTelemetry", "opentelemetry.sdk", ("opentelemetry-sdk==1.45.1",), _otel_span),
}


def python_of(peer: Peer) -> str:
    """The interpreter of a peer's environment, which is made on first use."""
    if not peer.packages:
        return sys.executable
    home = HOME / f"{peer.module.split('.')[0].lower()}-{hashlib.sha256(repr(peer.packages).encode()).hexdigest()[:8]}"
    python, stamp = home / "bin" / "python", home / "complete"
    if not stamp.exists():
        print(f"  installing {', '.join(peer.packages)}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *peer.packages], check=True)
        subprocess.run([str(python), "-m", "compileall", "-q", str(home / "lib")], check=False)
        stamp.touch()
    return str(python)
