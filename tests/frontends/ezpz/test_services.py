"""What `finalize` hands over, as real services have it: each file once, under the name it has on the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chiplog.frontends.ezpz.environment import EXPERIMENT_VARIABLES
from tests.sinks.conftest import place, sqlite  # noqa: F401  a server that all tests share
from tests.sinks.mlflow.server import Server
from tests.sinks.wandb.server import Server as Wandb
from tests.support.waiting import wait_for
from tests.support.wandb_runs import environ, offline_rows

SCRIPT = """
import sys
from chiplog.frontends.ezpz import History

history = History(project_name=sys.argv[1], backends="wandb,mlflow", outdir="out")
for step in range(5):
    history.update({"train/loss": 1 / (step + 1), "eval/loss": 2 / (step + 1)}, step=step)
history.finalize(outdir="out")
"""
FILES = {"report.md", "report.html", "train.h5", "eval.h5", "metrics.jsonl"}


@pytest.fixture
def wandb() -> Iterator[Wandb]:
    server = Wandb()
    yield server
    server.stop()


@pytest.mark.timeout(300)
def test_services_have_each_file_once_under_its_name(
    sqlite: Server,  # noqa: F811
    wandb: Wandb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both reports, the datasets, every line of the JSONL, and pictures by the names of their metrics."""
    monkeypatch.chdir(tmp_path)
    experiment = f"ezpz-{os.getpid()}"
    world = {**environ(wandb), "MLFLOW_TRACKING_URI": sqlite.uri, "MLFLOW_DISABLE_TELEMETRY": "true"}
    world.pop("MLFLOW_EXPERIMENT_NAME", None)
    subprocess.run([sys.executable, "-c", SCRIPT, experiment], env=world, check=True, timeout=200, capture_output=True)
    there = sqlite.run(experiment)
    pictures = {"plots/train/loss.png", "plots/eval/loss.png", "plots/eval_over_train_loss.png"}
    assert set(there.files()) == FILES | pictures | {"tables/training_history.json"}
    lines = (tmp_path / "out" / "metrics.jsonl").read_bytes()
    assert len(lines.splitlines()) == 5 and there.read("metrics.jsonl") == lines
    for name in FILES - {"metrics.jsonl"}:
        assert there.read(name) == (tmp_path / "out" / name).read_bytes()
    (run_id,) = wandb.runs
    kept = {one["name"]: one["files"] for one in wandb.artifacts if one["type"] == "file" and one["committed"]}
    assert set(kept) == {f"{run_id}-{name}" for name in FILES}
    for name in FILES:
        assert kept[f"{run_id}-{name}"][name] == (tmp_path / "out" / name).read_bytes()
    assert [row for row in wandb.runs[run_id].rows if "plots/train/loss" in row]


KILLED = """
import os
from chiplog.frontends.ezpz import History

history = History(project_name="p", backends="wandb")
for step in range(60):
    history.update({"loss": 1 / (step + 1)}, step=step)
os.kill(os.getpid(), 9)
"""


@pytest.mark.timeout(300)
def test_a_history_whose_process_is_killed_is_whole_at_wandb(
    wandb: Wandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B's client dies with it; the process that stands by delivers every row, once, and ends the run as failed."""
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-c", KILLED], env=environ(wandb), check=False, timeout=200, capture_output=True)
    wait_for(lambda: [run.exit for run in wandb.runs.values()] == [1], 120)
    (run,) = wandb.runs.values()
    assert run.series("loss") == [(step, 1 / (step + 1)) for step in range(60)]


TWO = """
from chiplog.frontends.ezpz import History

first, second = History(project_name="first", backends="wandb"), History(project_name="second", backends="wandb")
for step in range(5):
    first.update({"loss": 1 / (step + 1)}, step=step)
    second.update({"loss": 2 / (step + 1)}, step=step)
second.finalize(save=False, plot=False)
first.finalize(save=False, plot=False)
"""


@pytest.mark.timeout(300)
def test_two_histories_have_a_run_each(wandb: Wandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of the first is `wandb.run`, which does not keep that of the second from logging in."""
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", TWO], env=environ(wandb), check=False, timeout=200, capture_output=True, text=True
    )
    assert done.returncode == 0 and "no key" not in done.stderr, done.stderr
    series = {run.project: run.series("loss") for run in wandb.runs.values()}
    assert series == {
        "first": [(step, 1 / (step + 1)) for step in range(5)],
        "second": [(step, 2 / (step + 1)) for step in range(5)],
    }
    assert [run.exit for run in wandb.runs.values()] == [0, 0]


ENDED = """
from chiplog.frontends.ezpz import History

history = History(project_name="p", backends="wandb")
for step in range(60):
    history.update({"loss": 1 / (step + 1)}, step=step)
"""


@pytest.mark.parametrize(("last", "code"), [("", 0), ("raise ValueError('no')", 1)], ids=["end", "exception"])
def test_a_history_that_is_not_finalized_is_whole_at_wandb(
    last: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline, every row is in W&B's file when the script ends, normally or by an exception."""
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", ENDED + last], env=environ(), check=False, timeout=100, capture_output=True, text=True
    )
    assert done.returncode == code and "not complete" not in done.stderr, done.stderr
    (run,) = (tmp_path / "runs" / "p").glob("[0-9]*")
    found = [(row["step"], row["loss"]) for row in offline_rows(run) if "loss" in row]
    assert found == [(step, 1 / (step + 1)) for step in range(60)]


ALONE = """
from chiplog.frontends.ezpz import MLflowBackend, WandbBackend

here, there = WandbBackend(project_name="alone", config={"lr": 0.1}), MLflowBackend(config={"lr": 0.1})
for backend in (here, there):
    for step in range(3):
        backend.log({"loss": float(step)}, step=step)
    backend.log_config({"batch": 8})
print(here.run.id, there.run.info.run_id)
for backend in (here, there):
    backend.finish()
"""


@pytest.mark.timeout(300)
def test_backends_of_services_work_alone(
    sqlite: Server,  # noqa: F811
    wandb: Wandb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each with a run of its own: rows, config and native object; MLflow's experiment is named after the script."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "examples" / f"vit{os.getpid()}.py"
    script.parent.mkdir()
    script.write_text(ALONE)
    world = {**environ(wandb), "MLFLOW_TRACKING_URI": sqlite.uri, "MLFLOW_DISABLE_TELEMETRY": "true"}
    world = {name: value for name, value in world.items() if name not in EXPERIMENT_VARIABLES}
    done = subprocess.run([sys.executable, script], env=world, check=True, timeout=200, capture_output=True, text=True)
    (remote,) = wandb.runs.values()
    there = sqlite.run(f"ezpz.examples.{script.stem}")
    assert done.stdout.split()[-2:] == [remote.id, there.id]
    assert (remote.project, remote.exit) == ("alone", 0)
    assert remote.series("loss") == there.history("loss") == [(step, float(step)) for step in range(3)]
    assert {"lr": 0.1, "batch": 8}.items() <= remote.values().items()
    assert {"config.lr": "0.1", "config.batch": "8"}.items() <= there.params.items()
