"""Backends by name, trackers, and W&B's own object."""

from __future__ import annotations

import csv
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.frontends.ezpz import tracker as trackers
from chiplog.frontends.ezpz.history import History
from chiplog.frontends.ezpz.tracker import (
    CSVBackend,
    NullTracker,
    Tracker,
    TrackerBackend,
    register_backend,
    resolve_backend_names,
    setup_tracker,
)
from tests.frontends.ezpz.scripts import run_script
from tests.support.wandb_runs import offline_rows


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


@pytest.mark.parametrize(("name", "near"), [("wanbd", "wandb"), ("mine-to", "mine-too"), ("xyz", "")])
def test_an_unknown_name_is_a_warning_with_the_choices(
    name: str, near: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, registered ones too, and the most similar first; without any backend left, a tracker does nothing."""
    monkeypatch.setattr(trackers, "_registered", {"mine-too": Mine})
    history = History(backends=name)
    assert isinstance(history.tracker, NullTracker)
    what, *listed = caplog.text.strip().split("available: ")
    assert what.endswith(f"{name!r} is left out: no sink named {name!r}; {f'did you mean {near!r}? ' * bool(near)}")
    (choices,) = (one.split(", ") for one in listed)
    assert {"wandb", "csv", "mlflow", "none", "mine-too"} <= set(choices) and len(choices) == len(set(choices))


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
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(said) == 7 and "backend mine has not accepted 7 calls (RuntimeError: no)" in said


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


def test_a_history_takes_a_tracker_that_was_set_up(tmp_path: Path) -> None:
    """Its backends belong to the history's run, which is the only one."""
    tracker = setup_tracker("p", "csv", config={"lr": 1.0}, outdir=tmp_path / "sheets", rank=0)
    history = History(tracker=tracker)
    assert history.tracker is tracker
    history.update({"loss": 0.5}, step=3)
    history.finalize(outdir=tmp_path / "out", plot=False)
    assert (tmp_path / "out" / "metrics.csv").read_text().splitlines()[1].endswith(",0.5")
    assert len(list((tmp_path / "runs").glob("*/*"))) == 1


def test_a_history_goes_on_with_a_tracker_that_has_logged(tmp_path: Path) -> None:
    """In the same run, with lines of its own."""
    tracker = setup_tracker("p", "csv", outdir=tmp_path / "sheets")
    tracker.log({"before": 1.0})
    history = History(tracker=tracker, config={"lr": 1.0})
    history.update({"loss": 0.5})
    history.finalize(outdir=tmp_path / "out", plot=False)
    assert len((tmp_path / "out" / "metrics.csv").read_text().splitlines()) == 3
    assert len((tmp_path / "out" / "metrics.jsonl").read_text().splitlines()) == 2
    assert len(list((tmp_path / "runs").glob("*/*"))) == 1
    assert "metrics.jsonl" in {record.name for record in chiplog.read(history.run.dir).records("file")}


EVERY = """
from pathlib import Path
from chiplog.frontends import ezpz

names = ["wandb", "mlflow", "csv", "tensorboard", "jsonl"]
tracker = ezpz.setup_tracker("my-project", names, config={"lr": 0.1}, outdir="sheets", rank=0)
assert [tracker.get_backend(name) is not None for name in names] == [True] * len(names), names
history = ezpz.History(tracker=tracker)
for step in range(3):
    history.update({"loss": 0.5}, step=step)
assert tracker.wandb_run.project == "my-project" and tracker.wandb_run.config["lr"] == 0.1
run_id = tracker.mlflow_run.info.run_id
history.finalize(outdir="out", plot=False)
run = tracker.mlflow_run
assert run.info.run_id == run_id and run.data.metrics["loss"] == 0.5 and run.data.params["config.lr"] == "0.1"
assert len(Path("out/metrics.csv").read_text().splitlines()) == 4
(run,) = Path().glob("runs/my-project/*")
assert (run / "files" / "metrics.jsonl").exists() and list(run.rglob("*tfevents*"))
"""


def test_every_built_in_backend_works_in_a_tracker_of_a_history(tmp_path: Path) -> None:
    """With the real packages, W&B offline and MLflow in a local store; project and config are the tracker's."""
    run_script(EVERY, tmp_path)


def test_backends_work_alone(tmp_path: Path) -> None:
    """A class by its own, as scripts make them; on another rank it accepts everything and writes nothing."""
    backend = CSVBackend(outdir=tmp_path / "out", rank=0)
    backend.log_config({"lr": 1.0})
    backend.log({"loss": 0.5, "step": 0})
    backend.log({"loss": 0.3, "step": 1}, commit=False)
    backend.log_table("samples", ["a"], [[1]])
    backend.finish()
    rows = (tmp_path / "out" / "metrics.csv").read_text().splitlines()
    assert rows[0] == "step,time,loss" and [row[0] for row in rows[1:]] == ["0", "1"]
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == {"lr": 1.0}
    other = CSVBackend(outdir=tmp_path / "other", rank=1)
    other.log({"loss": 0.5})
    other.finish()
    assert not (tmp_path / "other").exists()


def test_options_reach_the_backends_that_know_them() -> None:
    """W&B's own, and those of a class that is registered; what is left of `rank` is for all."""
    register_backend("mine", Mine)
    tracker = setup_tracker("p", "wandb,mine", rank=1, entity="me", extra=3)
    wandb, mine = tracker.backends
    assert wandb.sink().items() >= {"project": "p", "entity": "me", "current": True}.items() and not wandb.writes
    assert (mine.facts["rank"], mine.facts["entity"], mine.facts["extra"]) == (1, "me", 3)


def test_other_ranks_write_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No sheet, no lines, no run, and none at W&B."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    history = History(backends="csv,wandb", outdir=tmp_path / "out", distributed_history=False)
    assert history.update({"loss": 1.0}) == "loss=1.000000" and history.tracker.wandb_run is None
    history.finalize(outdir=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_services_get_the_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The argument, then variables in their order, then the script with its folder; facts for MLflow under `ezpz.`."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def options(name: str, project: str | None = None) -> dict[str, Any]:
        return trackers.sinks_of(trackers.open_backends([name], project_name=project))[name]

    assert options("wandb", "p")["project"] == "p"
    assert options("mlflow", "p") == {"prefix": "ezpz.", "config_prefix": "config.", "experiment": "p"}
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/home/me/examples/vit.py", raising=False)
    assert options("wandb")["project"] == options("mlflow")["experiment"] == "ezpz.examples.vit"
    for name in ("WB_PROJECT_NAME", "WANDB_PROJECT", "WB_PROJECT"):
        monkeypatch.setenv(name, f"by {name}")
        assert options("wandb")["project"] == options("mlflow")["experiment"] == f"by {name}"
    (tmp_path / ".env").write_text("MLFLOW_EXPERIMENT_NAME=by the project")
    assert options("mlflow")["experiment"] == "by the project"


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
assert run.name != "my-project", run.name  # W&B makes one, as with the original

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


BESIDE = """
import os
import torch
import wandb
from chiplog.frontends import ezpz
from chiplog.version import VERSION

history = ezpz.History(project_name="my-project", backends="wandb")
assert wandb.run is not None and wandb.run is history.tracker.wandb_run
assert wandb.run.config["ezpz_version"] == VERSION and wandb.run.config["hostname"] == os.uname().nodename
assert wandb.run.config["torch_version"] == torch.__version__
second = ezpz.History(project_name="my-project", backends="wandb")
assert wandb.run is history.tracker.wandb_run is not second.tracker.wandb_run
for step in range(3):
    history.update({"loss": 0.5}, step=step)
    wandb.log({"mine": float(step)})
second.finalize(outdir="second", plot=False)
assert wandb.run is history.tracker.wandb_run
history.finalize(outdir="out", plot=False)
assert wandb.run is None
own = wandb.init(project="own")
third = ezpz.History(project_name="my-project", backends="wandb")
assert wandb.run is own is not third.tracker.wandb_run
third.update({"loss": 0.1})
third.finalize(outdir="third", plot=False)
assert wandb.run is own
own.finish()
"""


def test_the_run_of_a_history_is_that_of_wandb(tmp_path: Path) -> None:
    """From its constructor to its end, unless somebody has begun another: `wandb.log` beside it works."""
    run_script(BESIDE, tmp_path)
    rows = [row for path in (tmp_path / "runs" / "my-project").iterdir() for row in offline_rows(path)]
    assert [row["mine"] for row in rows if "mine" in row] == [0.0, 1.0, 2.0]
    assert sorted(row["loss"] for row in rows if "loss" in row) == [0.1, 0.5, 0.5, 0.5]


WATCHED = """
import torch
from chiplog.frontends.ezpz import History

model = torch.nn.Linear(2, 1)
history = History(backends="wandb", project_name="my-project")
history.tracker.get_backend("wandb").watch(model, log="all", log_freq=2)
for step in range(6):
    model(torch.ones(1, 2)).sum().backward()
    history.update({"loss": 0.5}, step=step)
history.finalize(outdir="out", plot=False)
"""


def test_a_model_may_be_watched(tmp_path: Path) -> None:
    """W&B's hooks write to `wandb.run`, from the batch on that they log first."""
    run_script(WATCHED, tmp_path)
    (path,) = (tmp_path / "runs" / "my-project").iterdir()
    rows = offline_rows(path)
    assert [row["loss"] for row in rows if "loss" in row] == [0.5] * 6
    assert any(name.startswith("gradients/") for row in rows for name in row)


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
