"""A run as files of other trackers, written by `chiplog export`, against what these trackers read in them."""

from __future__ import annotations

import math
import os
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.core.records import File, TextRecord
from chiplog.store.reader import Stored
from chiplog.views.export import tracker_files
from tests.support.foreign_stores import Values, opened, snapshot, values
from tests.support.tensorboard_points import load
from tests.support.trackio_runs import steps

HUGE = 1.7976931348623157e308  # what MLflow makes of an infinity
ODD = {3: math.inf, 4: -math.inf, 5: math.nan, 6: 1e-300, 7: 2**53 + 1}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """A run of two attempts, the second of which replaced two steps, with one of every kind of record."""
    folder = tmp_path_factory.mktemp("source")
    for attempt, first in ((1, 0), (2, 8)):
        run = chiplog.init(
            "test", id="one", name="a name", dir=folder, config={"lr": 0.1}, tags=["blue"], sinks="none", resume="auto"
        )
        for step in range(first, 10):
            run.log({"train/loss": ODD.get(step, attempt / (step + 3))}, step=step)
        run.finish()
    run = chiplog.init("test", id="one", dir=folder, sinks="none", resume="must")
    run.log({"late": 0.25}, step=10.5)
    run.log({"picture": chiplog.Image(np.zeros((4, 5, 3), "uint8")), "words": chiplog.Text("hello")}, step=11)
    run.log({"spread": chiplog.Histogram(np.arange(10.0))}, step=11)
    run.table("rows", [{"a": 1, "b": "x"}], step=11)
    with run.span("work"):
        pass
    run.finish()
    yield Stored(run.dir)


def export(source: Stored, tracker: str, folder: Path) -> str:
    """`chiplog export` in a process of its own, as for a user; what it printed."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB", "MLFLOW", "TRACKIO"))}
    before = snapshot(source.path / "journal")
    done = subprocess.run(
        [sys.executable, "-m", "chiplog", "export", str(source.path), "--to", tracker, "-o", str(folder)],
        capture_output=True, text=True, timeout=120, check=False, env=environ, cwd=folder.parent,
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert snapshot(source.path / "journal") == before
    return done.stdout


def expected(source: Stored) -> Values:
    """The points of the default view, with whole steps."""
    return {name: [(int(step), value) for step, value in pairs] for name, pairs in values(source).items()}


def single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def test_tensorboard_reads_every_point(source: Stored, tmp_path: Path) -> None:
    """Each number is the nearest of 32 bits; what has no place is named; a second export changes nothing."""
    out = export(source, "tensorboard", tmp_path / "logs")
    loaded = load(tmp_path / "logs")
    for name, pairs in expected(source).items():
        theirs = [(one.step, one.value) for one in loaded.Scalars(name)]
        assert repr(sorted(theirs, key=repr)) == repr(sorted(((at, single(one)) for at, one in pairs), key=repr))
    assert loaded.Tags()["images"] == ["picture"] and loaded.Tags()["histograms"] == ["spread"]
    times = source.series("train/loss").times
    assert loaded.Scalars("train/loss")[0].wall_time == pytest.approx(int(times.astype("int64")[0]) / 1e9, abs=1e-6)
    for reason in ("a newer attempt has replaced (2)", "tables", "spans", "fractions of steps"):
        assert f"! not kept: {reason}" in out or reason in out
    (file,) = (tmp_path / "logs").iterdir()
    before = file.read_bytes()
    export(source, "tensorboard", tmp_path / "logs")
    assert file.read_bytes() == before


def test_wandb_uploads_an_offline_run_with_every_point(source: Stored, tmp_path: Path) -> None:
    """All bits and fractions of steps; the config, tags and name of the run."""
    out = export(source, "wandb", tmp_path / "out")
    (run,) = opened(tmp_path / "out", tmp_path / "cache")
    theirs = values(run)
    for name, pairs in values(source).items():
        assert repr(theirs[name]) == repr(pairs)
    assert (run.project, run.id, run.name, run.tags, run.config["lr"]) == ("test", "one", "a name", ("blue",), 0.1)
    assert run.state == "finished"
    assert {"picture", "words"} <= {record.name for record in run.records() if isinstance(record, (File, TextRecord))}
    assert "wandb sync" in out and "when the run started" in out


def test_mlflow_reads_every_point(source: Stored, tmp_path: Path) -> None:
    """Numbers, steps and times by its own tables; infinities as MLflow keeps them; twice is once."""
    export(source, "mlflow", tmp_path / "out")
    export(source, "mlflow", tmp_path / "out")
    with sqlite3.connect(tmp_path / "out" / "mlflow.db") as database:
        query = "SELECT key, step, value, is_nan, timestamp FROM metrics ORDER BY key, step"
        rows = database.execute(query).fetchall()
        (state, started) = database.execute("SELECT status, start_time FROM runs").fetchone()
    database.close()
    theirs: Values = {}
    for name, step, value, is_nan, _ in rows:
        number = math.nan if is_nan else math.copysign(math.inf, value) if abs(value) == HUGE else value
        theirs.setdefault(name, []).append((step, number))
    for name, pairs in expected(source).items():
        assert repr(sorted(theirs[name], key=repr)) == repr(sorted(pairs, key=repr))
    assert state == "FINISHED" and abs(started - source.created / 1e6) < 100
    loss = [row for row in rows if row[0] == "train/loss"]
    assert loss[0][4] == int(source.series("train/loss").times.astype("int64")[0]) // 10**6
    assert [path.name for path in (tmp_path / "out" / "mlruns").rglob("*.png")] == ["picture.png"]


def test_trackio_reads_every_point(source: Stored, tmp_path: Path) -> None:
    """Numbers by its own rows; its words for NaN and infinities; twice is once."""
    export(source, "trackio", tmp_path / "trackio")
    export(source, "trackio", tmp_path / "trackio")
    words = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    for name, pairs in expected(source).items():
        theirs = [
            (step, words.get(value, value) if isinstance(value, str) else value)
            for step, value in steps(tmp_path, name)
        ]
        assert repr(sorted((step, float(value)) for step, value in theirs if value == value)) == repr(
            sorted((step, value) for step, value in pairs if value == value)
        )
        assert len(theirs) == len(pairs)


def test_one_tracker_becomes_another(tmp_path: Path) -> None:
    """A foreign run is exported like a run of our own."""
    (tmp_path / "metrics.csv").write_text("step,loss\n1,0.5\n2,0.25\n")
    (run,) = opened(tmp_path / "metrics.csv", tmp_path / "cache")
    folder = tmp_path / "logs"
    written = tracker_files.to_tracker(run, "tensorboard", folder, {}, lambda done: None)
    assert [(one.step, one.value) for one in load(folder).Scalars("loss")] == [(1, 0.5), (2, 0.25)]
    assert written.how_to_open == f"tensorboard --logdir {folder}"
