"""MLflow's system metrics are those of the machine that trains."""

from __future__ import annotations

import os
from pathlib import Path

import chiplog
from chiplog.sinks.mlflow.machine_monitor import training_here


def test_a_run_is_here_while_it_is_running(tmp_path: Path) -> None:
    """Known by the process of its current attempt; a run that has ended is not."""
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    run.log({"x": 1.0})
    attempt = training_here(run.dir)
    assert attempt is not None and attempt.pid == os.getpid()
    run.finish()
    assert training_here(run.dir) is None
