"""What a run of the stand-in keeps, beside the history: config, summary, media, files, artifacts, alerts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chiplog
import chiplog.compat.wandb as wandb
from chiplog.core.records import Alert, File, HistogramRecord


@pytest.fixture(autouse=True)
def no_run_left() -> Iterator[None]:
    yield
    wandb.finish()


@pytest.fixture
def run() -> wandb.Run:
    return wandb.init(id="it", project="p", entity="team")


def kept(run: wandb.Run) -> chiplog.Stored:
    run.finish()
    return chiplog.read(run.recorded.dir)


def test_a_run_has_names(run: wandb.Run) -> None:
    """The attributes that scripts use are strings, and `run.dir` is a folder."""
    assert (run.id, run.project, run.entity, run.path, run.step) == ("it", "p", "team", "team/p/it", 0)
    assert run.url.startswith("file://") and run.get_url() == run.url and isinstance(run.name, str)
    assert Path(run.dir).is_dir()


def test_a_config_file_is_read(tmp_path: Path) -> None:
    """A config may be a YAML file, also one in W&B's own form."""
    (tmp_path / "c.yaml").write_text("lr: {value: 0.1, desc: null}\nbatch: 4\n")
    assert wandb.init(config="c.yaml").config.as_dict() == {"lr": 0.1, "batch": 4}


def test_a_config_changes_only_if_allowed(run: wandb.Run, capfd: pytest.CaptureFixture[str]) -> None:
    """A refused change is reported once and does not raise; every accepted change is stored."""
    run.config.update(argparse.Namespace(lr=0.1))
    for _ in range(2):
        run.config.lr = 0.2
        run.config.update({"lr": 0.3})
    assert run.config.lr == 0.1
    run.config.update({"lr": 0.4}, allow_val_change=True)
    assert kept(run).config == {"lr": 0.4}
    assert capfd.readouterr().err.count("config 'lr' stays 0.1") == 1


def test_best_is_the_least_or_the_greatest(run: wandb.Run) -> None:
    """`summary="best"` follows the goal, and is kept under the metric's name and the operation."""
    run.define_metric("loss", summary="best")
    run.define_metric("acc", summary="best,last", goal="maximize")
    for loss, acc in ((2.0, 0.1), (1.0, 0.9), (3.0, 0.5)):
        run.log({"loss": loss, "acc": acc})
    assert run.summary["loss"] == {"best": 1.0} and run.summary["acc"] == {"best": 0.9, "last": 0.5}
    assert kept(run).summary["acc.best"] == 0.9
    assert wandb.Api().run("p/it").summary["acc"] == {"best": 0.9, "last": 0.5}


def test_aggregates_survive_a_kill(run: wandb.Run) -> None:
    """The summary of a run that never finished is computed from its rows."""
    run.define_metric("loss", summary="min")
    run.log({"loss": 1.0})
    run.log({"loss": 2.0})
    assert wandb.Api().run("it").summary["loss"] == {"min": 1.0}


def test_tables_are_kept_as_rows(run: wandb.Run) -> None:
    """Rows, data frames and added columns; a table that grows is appended to; media in cells are kept, too."""
    import pandas

    table = wandb.Table(columns=["a", "b"])
    table.add_data(1, "x")
    run.log({"t": table})
    table.add_data(2, "y")
    run.log({"t": table})
    run.log({"frame": wandb.Table(dataframe=pandas.DataFrame({"n": [1, 2]}))})
    run.log({"cells": wandb.Table(columns=["image"], data=[[wandb.Image(np.zeros((2, 2)))]])})
    stored = kept(run)
    assert [{key: row[key] for key in ("a", "b")} for row in stored.table("t")] == [
        {"a": 1, "b": "x"},
        {"a": 2, "b": "y"},
    ]
    assert [row["n"] for row in stored.table("frame")] == [1, 2]
    assert [row["image"] for row in stored.table("cells")] == ["cells/image"]
    assert any(record.name == "cells/image" for record in stored.records("file") if isinstance(record, File))


def test_media_are_kept_as_files(run: wandb.Run, tmp_path: Path) -> None:
    """Images, pages, sound, video and figures are files of the run with their media type."""
    from matplotlib.figure import Figure

    (tmp_path / "v.mp4").write_bytes(b"video")
    run.log({"image": wandb.Image(np.zeros((4, 4, 3), "uint8"), caption="words")})
    run.log({"html": wandb.Html("<b>x</b>")})
    run.log({"audio": wandb.Audio(np.zeros(100, "float32"), sample_rate=8000)})
    run.log({"frames": wandb.Video(np.zeros((3, 3, 8, 8), "uint8"), fps=4)})
    run.log({"video": wandb.Video("v.mp4")})
    run.log({"figure": wandb.Plotly(Figure()), "plain": Figure()})
    run.log({"points": wandb.Object3D(np.zeros((2, 3)))})
    stored = kept(run)
    files = {record.name: record for record in stored.records("file") if isinstance(record, File)}
    assert {name: record.media for name, record in files.items() if record.step is not None} == {
        "image": "image/png",
        "html": "text/html",
        "audio": "audio/wav",
        "frames": "image/gif",
        "video": "video/mp4",
        "figure": "image/png",
        "plain": "image/png",
        "points": "application/json",
    }
    assert all((stored.path / record.path).stat().st_size == record.size for record in files.values())
    assert files["image"].caption == "words" and files["html"].step == 1
    assert (stored.path / files["audio"].path).read_bytes()[:4] == b"RIFF"


def test_plots_keep_their_tables(run: wandb.Run) -> None:
    """`wandb.plot` charts are tables here, and a confusion matrix is counted."""
    run.log({"matrix": wandb.plot.confusion_matrix(y_true=[0, 1, 1], preds=[0, 1, 0], class_names=["a", "b"])})
    run.log({"lines": wandb.plot.line_series(xs=[0, 1], ys=[[1, 2], [3, 4]], keys=["u", "v"])})
    stored = kept(run)
    assert [row["nPredictions"] for row in stored.table("matrix")] == [1, 0, 1, 1]
    assert len(list(stored.table("lines"))) == 4


def test_watch_records_histograms(run: wandb.Run) -> None:
    """Gradients and parameters of a torch model are recorded every `log_freq` batches, in the row of their step."""
    import torch

    model = torch.nn.Linear(3, 2)
    run.watch(model, log="all", log_freq=2)
    for number in range(4):
        model(torch.ones(5, 3)).sum().backward()
        run.log({"loss": number})
    run.unwatch()
    model(torch.ones(5, 3)).sum().backward()
    records = [record for record in kept(run).records("histogram") if isinstance(record, HistogramRecord)]
    names = {"gradients/weight", "gradients/bias", "parameters/weight", "parameters/bias"}
    assert {(record.name, record.step) for record in records} == {(name, step) for name in names for step in (1, 3)}
    assert all(sum(record.counts) == (6 if "weight" in record.name else 2) for record in records)


def test_an_artifact_is_found_by_another_run(run: wandb.Run, tmp_path: Path) -> None:
    """`log_artifact` keeps files, folders and new files; `use_artifact` of a later run reads them back."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.txt").write_text("one")
    artifact = wandb.Artifact("set", type="dataset", metadata={"rows": 1})
    artifact.add_dir("data")
    with artifact.new_file("made.json") as file:
        json.dump({"a": 1}, file)
    run.log_artifact(artifact, aliases=["best"]).wait()
    run.log_model(tmp_path / "data" / "x.txt", name="weights")
    run.finish()
    later = wandb.init(project="p")
    used = later.use_artifact("team/p/set:latest")
    folder = Path(used.download())
    assert (folder / "x.txt").read_text() == "one" and json.loads((folder / "made.json").read_text()) == {"a": 1}
    assert (used.type, used.version, used.aliases) == ("dataset", "v0", ["best", "latest"])
    assert Path(later.use_artifact("set:best").download(tmp_path / "copy")).joinpath("x.txt").exists()
    assert Path(later.use_model("weights")).read_text() == "one"
    assert [one.name for one in wandb.Api().run("it").logged_artifacts()] == ["set", "weights"]


@pytest.mark.parametrize("folder", ["../../../private", "/etc", "files/link", 7, None])
def test_an_artifact_is_never_outside_of_its_run(
    run: wandb.Run, tmp_path: Path, folder: object, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run of somebody else whose artifact is another folder of the user's: reported, and an empty one is used."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    (run.recorded.dir / "files").mkdir(exist_ok=True)
    (run.recorded.dir / "files" / "link").symlink_to(tmp_path / "private")
    run.recorded.event("artifact", name="set", type="dataset", version="v0", aliases=["latest"], folder=folder)
    run.finish()
    later = wandb.init(project="p")
    assert list(Path(later.use_artifact("set:latest").download(tmp_path / "copy")).glob("*")) == []
    assert "the artifact 'set:latest' of run" in capfd.readouterr().err


def test_saved_files_are_kept(run: wandb.Run, tmp_path: Path) -> None:
    """`save` copies now and at the end; what the script writes to `run.dir` is part of the run."""
    (tmp_path / "log.txt").write_text("early")
    run.save("log.txt", policy="end")
    (tmp_path / "log.txt").write_text("late")
    (Path(run.dir) / "own.txt").write_text("mine")
    wandb.save(str(tmp_path / "*.txt"), policy="now")
    stored = kept(run)
    contents = {
        (stored.path / record.path).read_text()
        for record in stored.records("file")
        if isinstance(record, File) and record.name.endswith(".txt") and "packages" not in record.name
    }
    assert contents == {"late", "mine"}


def test_alerts_are_kept_and_wait(run: wandb.Run) -> None:
    """An alert has its level; the same one within `wait_duration` is not repeated."""
    for _ in range(2):
        run.alert("low", "accuracy", level=wandb.AlertLevel.WARN, wait_duration=timedelta(minutes=5))
    run.alert("other", level="ERROR")
    alerts = [record for record in kept(run).records("alert") if isinstance(record, Alert)]
    assert [(one.title, one.text, one.level) for one in alerts] == [("low", "accuracy", "warn"), ("other", "", "error")]


def test_a_run_that_fails_says_so() -> None:
    """An exception in the `with` block, or an exit code, is the state of the run."""
    with pytest.raises(ZeroDivisionError), wandb.init(id="with"):
        1 / 0  # noqa: B018
    wandb.init(id="code").finish(exit_code=3)
    assert wandb.Api().run("with").state == wandb.Api().run("code").state == "failed"
    assert wandb.run is None


def test_values_on_a_device_are_not_waited_for(run: wandb.Run) -> None:
    """A tensor of one element is a number, with or without a graph; the summary does not keep the graph."""
    import torch

    value = torch.tensor(2.0, requires_grad=True) * 2
    run.log({"x": value, "y": torch.tensor([3])})
    held: Any = run.summary._last["x"]
    assert not held.requires_grad and run.summary["x"] == 4.0
    assert kept(run).series("x").values.tolist() == [4.0]
