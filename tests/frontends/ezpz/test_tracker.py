"""Backends by name, trackers, and W&B's own object."""

from __future__ import annotations

import csv
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from chiplog.frontends.ezpz import tracker as trackers
from chiplog.frontends.ezpz import utils
from chiplog.frontends.ezpz.history import History
from chiplog.frontends.ezpz.tracker import (
    NullTracker,
    Tracker,
    TrackerBackend,
    register_backend,
    resolve_backend_names,
    setup_tracker,
)
from tests.frontends.ezpz.scripts import run_script
from tests.sinks.test_wandb_sink import offline_rows


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("EZPZ_", "WANDB_", "WB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(trackers, "_registered", {})


class Mine(TrackerBackend):
    name = "mine"

    def __init__(self, **facts: Any) -> None:
        self.facts: dict[str, Any] = facts
        self.entries: list[Any] = []

    def log(self, metrics: Any, step: Any = None, commit: bool = True) -> None:
        self.entries.append((dict(metrics), step))

    def log_config(self, config: Any) -> None:
        self.entries.append("config")

    def log_table(self, key: str, columns: Any, data: Any) -> None:
        self.entries.append("table")

    def log_image(self, key: str, image_path: Any, caption: str | None = None) -> None:
        self.entries.append(caption)

    def watch(self, model: Any, **options: Any) -> None:
        self.entries.append(options)

    def finish(self) -> None:
        self.entries.append("finish")


@pytest.mark.parametrize(
    ("given", "variable", "names"),
    [
        ("wandb,csv", "", ["wandb", "csv"]),
        (" CSV , csv ", "", ["csv"]),
        (["csv", "mlflow"], "", ["csv", "mlflow"]),
        (None, "csv", ["csv"]),
        (None, "none", []),
        ("none", "csv", []),
        ("none,csv", "", ["csv"]),
        (None, "", []),
    ],
)
def test_names_are_understood(given: Any, variable: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their case, each once; from the environment where nothing is said."""
    if variable:
        monkeypatch.setenv("EZPZ_TRACKER_BACKENDS", variable)
    assert resolve_backend_names(given) == names


def test_the_environment_names_backends_at_call_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EZPZ_TRACKER_BACKENDS", "csv")
    history = History(outdir=tmp_path)
    assert history.tracker.get_backend("csv") is not None


def test_a_registered_backend_works_beside_ours(tmp_path: Path) -> None:
    """It is made with what a backend is made with."""
    register_backend("mine", Mine)
    history = History(backends="mine,csv", outdir=tmp_path / "out", project_name="p", config={"lr": 1.0})
    mine = history.tracker.get_backend("mine")
    history.update({"loss": 0.5}, step=4)
    history.run.finish()
    assert mine.facts == {"project_name": "p", "config": {"lr": 1.0}, "outdir": tmp_path / "out", "rank": 0}
    assert mine.entries == ["config", ({"loss": 0.5}, 4), "finish"]
    assert (tmp_path / "out" / "metrics.csv").exists()


def test_an_unknown_name_is_a_warning_with_the_choices(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is raised; without any backend left there is a tracker that does nothing."""
    history = History(backends="wanbd")
    assert isinstance(history.tracker, NullTracker)
    assert "'wanbd' is left out" in caplog.text and "wandb" in caplog.text and "csv" in caplog.text


def test_a_backend_that_cannot_be_made_is_a_warning(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    def fail(**_: Any) -> None:
        raise OSError("no license")

    register_backend("dear", fail)
    history = History(backends="dear,csv", outdir=tmp_path)
    assert history.tracker.get_backend("dear") is None and history.tracker.get_backend("csv") is not None
    assert "no license" in caplog.text


def test_a_failing_backend_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The good one gets everything, and the bad one is warned of once a method."""
    good = Mine()
    bad = type(
        "Bad", (Mine,), dict.fromkeys(("log", "log_config", "log_table", "log_image", "watch", "finish"), _fail)
    )()
    tracker = Tracker([bad, good])
    for _ in range(3):
        tracker.log({"a": 1.0}, step=1)
    tracker.log_config({})
    tracker.log_table("t", [], [])
    tracker.log_image("i", "x.png", caption="c")
    tracker.watch(None, log="all")
    tracker.finish()
    assert good.entries == [({"a": 1.0}, 1)] * 3 + ["config", "table", "c", {"log": "all"}, "finish"]
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 6


def _fail(*_: Any, **__: Any) -> None:
    raise RuntimeError("no")


def test_a_failing_backend_of_a_history_costs_nothing_else(tmp_path: Path) -> None:
    """The files are complete."""
    bad = type("Bad", (Mine,), {"log": _fail, "finish": _fail})()
    history = History(tracker=Tracker([bad]))
    assert history.update({"loss": 1.0}) == "loss=1.000000"
    history.finalize(outdir=tmp_path / "out", plot=False)
    assert (tmp_path / "out" / "dataset.h5").exists()


def test_a_null_tracker_takes_everything() -> None:
    tracker = NullTracker()
    tracker.log({"a": 1.0})
    tracker.log_config({})
    tracker.log_table("t", [], [])
    tracker.log_image("i", "x.png")
    tracker.log_artifacts({})
    tracker.watch(None)
    tracker.finish()
    assert tracker.get_backend("wandb") is None and tracker.wandb_run is None


def test_a_tracker_of_its_own(tmp_path: Path) -> None:
    """`setup_tracker`: rows with new columns, the config and a table beside them."""
    tracker = setup_tracker("p", "csv", config={"lr": 1.0}, outdir=tmp_path / "out")
    tracker.log({"loss": 0.5})
    tracker.log({"loss": 0.3, "grad_norm": 0.8})
    tracker.log_table("samples", ["a", "b"], [[1, 2]])
    tracker.finish()
    rows = list(csv.reader((tmp_path / "out" / "metrics.csv").read_text().splitlines()))
    assert [rows[0][2:], rows[1][2:], rows[2][2:]] == [["loss", "grad_norm"], ["0.5", ""], ["0.3", "0.8"]]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"metrics.csv", "config.json", "samples.csv"}


def test_other_ranks_write_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No sheet, no lines, no run."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    history = History(backends="csv", outdir=tmp_path / "out", distributed_history=False)
    assert history.update({"loss": 1.0}) == "loss=1.000000"
    history.finalize(outdir=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_services_get_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument, or what the environment says; MLflow has its facts under `ezpz.`."""
    options, _ = trackers.open_backends(["wandb", "mlflow"], project_name="p", config={}, outdir=None)
    assert options == {"wandb": {"project": "p"}, "mlflow": {"prefix": "ezpz.", "experiment": "p"}}
    options, _ = trackers.open_backends(["wandb"], project_name=None, config={}, outdir=None)
    assert options == {"wandb": {}}  # the sink asks the environment
    for name in ("WB_PROJECT_NAME", "WANDB_PROJECT", "WB_PROJECT"):
        monkeypatch.setenv(name, f"by {name}")
        assert utils._project() == f"by {name}"


@pytest.mark.parametrize(("name", "value"), [("WANDB_DISABLED", "1"), ("WANDB_MODE", "disabled")])
def test_wandb_is_disabled_by_its_variables(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    history = History(backends="wandb")
    assert history.tracker.wandb_run is None and history.tracker.get_backend("wandb") is None


WANDB = """
import torch, warnings
from chiplog.frontends import ezpz
from chiplog.frontends.ezpz import History

model = torch.nn.Linear(2, 1)
history = History(project_name="my-project", backends="wandb", config={"lr": 1e-4, "batch_size": 32})

# Attach wandb gradient tracking
wb = history.tracker.get_backend("wandb")
if wb is not None:
    wb.watch(model, log="all")

# Access the underlying wandb.Run
if history.tracker.wandb_run is not None:
    history.tracker.wandb_run.summary["best_loss"] = 0.01
run = history.tracker.wandb_run
assert run.project == "my-project" and run.config["lr"] == 1e-4, (run.project, dict(run.config))

from PIL import Image
Image.new("RGB", (2, 2)).save("sample.png")
history.tracker.log_image("sample", "sample.png", caption="Epoch 10")
for step in range(3):
    model(torch.ones(1, 2)).sum().backward()
    history.update({"loss": 0.5}, step=step)
assert run.summary["best_loss"] == 0.01
history.finalize(outdir="out", plot=False)
"""


def test_the_own_object_of_wandb_is_reached(tmp_path: Path) -> None:
    """The lines of the documentation, against the real SDK offline, before the first update."""
    run_script(WANDB, tmp_path)
    (path,) = (tmp_path / "runs" / "my-project").iterdir()
    rows = offline_rows(path)
    assert [row["loss"] for row in rows if "loss" in row] == [0.5] * 3
    assert any(row.get("sample/caption") == "Epoch 10" for row in rows)


ACTIVE = """
import warnings
from chiplog.frontends import ezpz

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    run = ezpz.setup_wandb(project_name="my-project")
    history = ezpz.History()
    history.update({"loss": 0.42}, use_wandb=True)
words = [str(one.message) for one in caught if one.category is DeprecationWarning]
assert any("active wandb.run" in word for word in words) and any("use_wandb" in word for word in words), words
history.finalize(outdir="out", plot=False)
assert run.summary["loss"] == 0.42, dict(run.summary)
run.finish()
"""


def test_an_active_run_of_wandb_is_picked_up_with_a_warning(tmp_path: Path) -> None:
    """As before; a run that somebody else began stays theirs."""
    run_script(ACTIVE, tmp_path)
