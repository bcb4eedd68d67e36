"""The callback of Hydra, with real applications."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chiplog.integrations.hydra import ChiplogCallback
from tests.support.framework_runs import stored_runs

SCRIPT = """
import chiplog
import hydra
from omegaconf import DictConfig


@hydra.main(version_base="1.3", config_path=None)
def main(config: DictConfig) -> float:
    chiplog.log({"loss": 1.0 / config.lr}, 0)
    if config.lr == 3:
        raise ValueError("bad")
    return float(config.lr)


main()
"""
CALLBACK = [
    "+hydra.callbacks.chiplog._target_=chiplog.integrations.hydra.ChiplogCallback",
    "+hydra.callbacks.chiplog.project=h",
]


def application(*arguments: str) -> str:
    Path("main.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "main.py", *CALLBACK, *arguments], capture_output=True, text=True, timeout=100, check=False
    )
    return done.stderr


def test_every_job_of_a_sweep_is_a_run() -> None:
    """With its config, overrides, result and the directory of the sweep; also if the job is in a directory of its own."""
    application("+lr=1,2,3", "hydra.job.chdir=true", "+hydra.callbacks.chiplog.tags=[a]", "--multirun")
    runs = sorted(stored_runs("h"), key=lambda run: run.config["lr"])
    assert [run.name for run in runs] == ["main 0", "main 1", "main 2"]
    assert [run.state for run in runs] == ["finished", "finished", "failed"]
    assert runs[0].summary["return_value"] == 1.0 and runs[2].attempts[-1].finish.reason == "ValueError: bad"
    assert all("loss" in run.names() and run.tags == ("a",) for run in runs)
    assert runs[1].config["hydra"]["overrides"] == ["+lr=2"]


def test_a_single_job_is_a_run() -> None:
    """And its error is the script's."""
    assert "ValueError: bad" in application("+lr=3")
    [run] = stored_runs("h")
    assert (run.name, run.state) == ("main", "failed")


def test_odd_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """Other arguments, out of order, twice: Hydra sees no error."""
    callback: Any = ChiplogCallback()
    for _ in range(2):
        callback.on_job_end(None, SimpleNamespace())
        callback.on_job_start()
    assert capsys.readouterr().err.count("chiplog works with 1.3") == 2
