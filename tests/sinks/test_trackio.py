"""The Trackio sink, through a run and its relay, read back from Trackio's database."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.cli import main
from tests.sinks.conftest import png
from tests.support.destinations import enrol, enrolled
from tests.support.trackio_runs import rows, steps


def begin(tmp_path: Path, **more: Any) -> chiplog.Run:
    sinks = {"trackio": {"dir": str(tmp_path / "trackio")}}
    return chiplog.init("test", **{"sinks": sinks, "dir": tmp_path / "runs", "id": "run", "name": "one", **more})


def test_a_run_arrives_with_its_config_and_alerts(tmp_path: Path) -> None:
    """Steps, evals, GPUs and routers by the names that all services get; what is beyond JSON as Trackio says it."""
    run = begin(tmp_path, config={"lr": 0.1, "_hidden": {"deep": [1, None]}})
    for step in range(20):
        run.log({"loss": step / 7}, step=step)
    run.log({"loss": float("nan"), "huge": 10**400, "wide": 10**30, "step": 1, "a\ud800": 1.0}, step=20)
    run.eval({"loss": 2.5}, step=20)
    run.event("gpu", id=1, dram_free=8 << 30)
    run.event("moe", aux_loss=0.5)
    run.event("allocator", stats=[{"name": "weights", "device": 4 << 30}])
    run.alert("loss is up", text="by a lot", level="error")
    assert run.finish(timeout=60)
    assert steps(tmp_path) == [*((step, step / 7) for step in range(20)), (20, "NaN")]
    assert steps(tmp_path, "huge") == [(20, "Infinity")]
    assert steps(tmp_path, "wide") == [(20, 1e30)]
    assert steps(tmp_path, "__step") == [(20, 1)]
    assert steps(tmp_path, "eval/loss") == [(20, 2.5)]
    assert steps(tmp_path, "gpu/1/dram_free") == [(20, 8192.0)]
    assert steps(tmp_path, "train/aux_loss") == steps(tmp_path, "train/moe_aux_loss") == [(20, 0.5)]
    assert steps(tmp_path, "allocator/weights_mib") == [(20, 4096.0)]
    assert set(rows(tmp_path, "metrics", "run_id, run_name")) == {("run", "one")}
    (config,) = rows(tmp_path, "configs", "config")
    assert json.loads(config[0]) == {"lr": 0.1, "hidden": {"deep": [1, None]}}
    assert ("loss is up", "by a lot", "error", 20) in rows(tmp_path, "alerts", "title, text, level, step")
    (first, *_) = chiplog.read(run.dir).records("step")
    (shown, *_) = rows(tmp_path, "metrics", "timestamp")
    from datetime import datetime

    assert math.isclose(datetime.fromisoformat(shown[0]).timestamp(), first.time / 1e9, abs_tol=1e-5)


def test_trackio_itself_shows_the_run(tmp_path: Path) -> None:
    """Its own reader finds the project, the run and every point."""
    run = begin(tmp_path)
    for step in (0, 1, 2, 1):
        run.log({"loss": step + 0.5}, step=step)
    assert run.finish(timeout=60)
    code = (
        "from trackio.sqlite_storage import SQLiteStorage as s; import json;"
        "print(json.dumps([s.get_projects(), s.get_runs('test'), s.get_logs('test', 'one')]))"
    )
    environ = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio")}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    projects, runs, logs = json.loads(done.stdout.splitlines()[-1])
    assert (projects, runs) == (["test"], ["one"])
    assert sorted((row["step"], row["loss"]) for row in logs) == [(0, 0.5), (1, 1.5), (1, 1.5), (2, 2.5)]


def test_tables_texts_histograms_and_pictures_arrive(tmp_path: Path) -> None:
    """As Trackio has them, each once, though everything is sent twice; a text is shown as it is."""
    run = begin(tmp_path)
    run.table("samples", [{"prompt": "a\ud800", "score": 1.5}, {"other": [1, {"x": None}]}], step=3)
    run.log({"hist": chiplog.Histogram(edges=[0, 1, 2], counts=[3, 4])}, step=3)
    run.log({"said": chiplog.Text("**not bold** ```"), "matrix": chiplog.Matrix([[1, 2], [3]])}, step=3)
    run.log({"picture": chiplog.Image(png(), caption="red")}, step=3)
    (tmp_path / "notes.txt").write_text("no picture")
    run.artifact(tmp_path / "notes.txt", name="notes")
    assert run.finish(timeout=60)
    options = enrolled(run.dir)["trackio"]
    (run.dir / "cursors" / "trackio.json").unlink()
    enrol(run.dir, "trackio", options)
    assert main(["sync", str(run.dir)]) == 0
    columns = {"prompt": None, "score": None, "other": None}
    samples = [{**columns, "prompt": "a\\ud800", "score": 1.5}, {**columns, "other": "[1, {'x': None}]"}]
    assert steps(tmp_path, "samples") == [(3, {"_type": "trackio.table", "_value": samples})]
    assert steps(tmp_path, "hist") == [(3, {"_type": "trackio.histogram", "bins": [0, 1, 2], "values": [3, 4]})]
    assert steps(tmp_path, "said") == [(3, {"_type": "trackio.markdown", "_value": "````\n**not bold** ```\n````"})]
    ((_, matrix),) = steps(tmp_path, "matrix")
    assert matrix["_value"] == [{"0": 1, "1": 2}, {"0": 3, "1": None}]
    ((step, picture),) = steps(tmp_path, "picture")
    assert (step, picture["_type"], picture["caption"]) == (3, "trackio.image", "red")
    (kept,) = (path for path in (tmp_path / "trackio" / "media").rglob("*") if path.is_file())
    assert kept == tmp_path / "trackio" / "media" / picture["file_path"]
    assert kept.read_bytes() == png()


@pytest.mark.parametrize("said", ["option", "variable"])
def test_its_folder_is_where_the_training_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """The relay is elsewhere."""
    monkeypatch.chdir(tmp_path)
    if said == "variable":
        monkeypatch.setenv("TRACKIO_DIR", "trackio")
    run = begin(tmp_path, sinks={"trackio": {"dir": "trackio"} if said == "option" else {}})
    run.log({"loss": 1.0}, step=0)
    assert run.finish(timeout=60)
    assert steps(tmp_path) == [(0, 1.0)]


def test_a_new_attempt_goes_on_and_steps_may_go_back(tmp_path: Path) -> None:
    """The same run, all points."""
    for first in (0, 3):
        run = begin(tmp_path)
        for step in range(first, first + 5):
            run.log({"loss": step + first}, step=step)
        assert run.finish(timeout=60)
    assert steps(tmp_path) == [(step, step) for step in range(5)] + [(step, step + 3) for step in range(3, 8)]
    assert set(rows(tmp_path, "metrics", "run_id")) == {("run",)}
