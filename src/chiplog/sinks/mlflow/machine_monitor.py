"""MLflow's own system metrics, sampled during delivery."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chiplog.core.records import Attempt
from chiplog.store import manifest
from chiplog.store.runs import liveness, state


class MachineMonitor:
    """MLflow's own system metrics, for as long as the training runs on this machine."""

    def __init__(self, monitor: Any, alive: Callable[[], bool]) -> None:
        self._monitor, self._alive = monitor, alive
        self._stopped = threading.Event()
        threading.Thread(target=self._sample, name="chiplog-mlflow-system", daemon=True).start()

    @classmethod
    def watch(cls, run_id: str, uri: str, started: Attempt) -> MachineMonitor | None:
        try:
            from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor  # needs psutil

            monitor = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=uri)
        except Exception as error:  # optional, and it may fail for many reasons
            print(f"no system metrics: {type(error).__name__}: {error}", flush=True)
            return None
        return cls(monitor, lambda: bool(liveness.is_alive(started)))

    def stop(self) -> None:
        self._stopped.set()

    def _sample(self) -> None:
        while not self._stopped.wait(self._monitor.sampling_interval) and self._alive():
            try:
                self._monitor.collect_metrics()
                self._monitor.publish_metrics(self._monitor.aggregate_metrics())
            except Exception:  # the server is away; the next sample may reach it
                continue


def training_here(run: Path) -> Attempt | None:
    """The current attempt of a run, if it runs on this machine."""
    last = state.attempts(run, rank=manifest.load(run).rank)[-1:]
    start = last[0].start if last and last[0].state == "running" else None
    return start if start is not None and liveness.is_alive(start) else None
