"""Runs of services, as a tracker hands them to its script."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import chiplog
from chiplog.frontends.ezpz.backends import service_runs
from chiplog.frontends.ezpz.backends.service_runs import ActiveWandb


class Active:
    """A run that a script has started, as far as rows go."""

    def __init__(self) -> None:
        self.rows: list[tuple[dict[str, object], bool]] = []
        self.changes: list[tuple[dict[str, object], bool]] = []
        self.config = SimpleNamespace(
            update=lambda data, allow_val_change: self.changes.append((data, allow_val_change))
        )

    def log(self, row: dict[str, object], commit: bool) -> None:
        self.rows.append((row, commit))


def test_a_run_of_the_script_gets_every_row() -> None:
    """With the step beside the values where there is one; the script finishes it."""
    active = Active()
    backend = ActiveWandb(active)
    backend.log({"loss": 1.0})
    backend.log({"loss": 2.0}, step=7, commit=False)
    backend.log_config({"lr": 0.1})
    backend.finish()
    first, second = active.rows
    assert first == ({"loss": 1.0}, True)
    assert second[1] is False and second[0]["loss"] == 2.0 and 7 in second[0].values()
    assert active.changes == [({"lr": 0.1}, True)]


def test_a_run_that_keeps_nothing_has_no_run_of_wandb(tmp_path: Path) -> None:
    """Nothing is waited for."""
    with chiplog.init("p", dir=tmp_path, mode="disabled") as run:
        assert service_runs.wandb_run(run) is None and service_runs.mlflow_run(run) is None


def test_a_service_that_does_not_start_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that names it; the script continues."""
    native: Any = None
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        monkeypatch.setattr(type(run), "sink", lambda self, name: SimpleNamespace(native=native))
        assert service_runs.wandb_run(run, 0.0) is None
        assert "wandb has not started a run within 0 s" in caplog.text
        native = SimpleNamespace(config=dict(run.identity.config))
        assert service_runs.wandb_run(run, 0.0) is native
