"""MLflow's stores, written by its client, against its client."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values

HUGE = {1.7976931348623157e308: math.inf, -1.7976931348623157e308: -math.inf}  # what the client makes of an infinity
pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow, about itself and SQLAlchemy


def write(uri: str, artifacts: Path) -> tuple[MlflowClient, str]:
    """A parent and a nested run, by the client; returns the client and the parent's id."""
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("an experiment", artifact_location=artifacts.as_uri())
    run = client.create_run(experiment, run_name="parent").info.run_id
    rows = [
        Metric("train/loss", math.inf if step == 3 else math.nan if step == 4 else 1 / (step + 1), 1.7e12 + step, step)
        for step in range(300)
    ]
    rows += [Metric("x", -math.inf, int(1.7e12), 7), Metric("x", 1e-300, int(1.7e12), -3)]
    for metric in rows:
        metric._timestamp = int(metric.timestamp)
    params = [Param("lr", "0.1"), Param("version", "1.10"), Param("name", "a b"), Param("api_key", "sk-" + "7" * 30)]
    client.log_batch(run, rows, params, [RunTag("team", "blue"), RunTag("mlflow.note.content", "a note")])
    (artifacts / "source").mkdir(parents=True, exist_ok=True)
    (artifacts / "source" / "model.txt").write_text("weights")
    client.log_artifact(run, str(artifacts / "source" / "model.txt"))
    child = client.create_run(experiment, run_name="child", tags={"mlflow.parentRunId": run}).info.run_id
    client.log_metric(child, "y", 1.5, step=1)
    client.set_terminated(child, "FAILED")
    client.set_terminated(run, "FINISHED")
    return client, run


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, MlflowClient, str]]:
    folder = tmp_path_factory.mktemp("mlflow")
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    database, files = folder / "mlflow.db", folder / "mlruns"
    return {
        "database": (database, *write(f"sqlite:///{database}", folder / "a")),
        "files": (files, *write(files.as_uri(), files / "artifacts")),
    }


@pytest.mark.parametrize("kind", ["database", "files"])
def test_every_point_is_that_of_the_client(
    stores: dict[str, tuple[Path, MlflowClient, str]], tmp_path: Path, kind: str
) -> None:
    """Values, steps and times of all metrics, with NaN and infinities as they were logged."""
    path, client, run_id = stores[kind]
    (run,) = [one for one in opened(path, tmp_path / "cache") if one.name == "parent"]
    for name in ("train/loss", "x"):
        theirs = sorted(
            (one.step, repr(HUGE.get(one.value, one.value)), one.timestamp * 10**6)
            for one in client.get_metric_history(run_id, name)
        )
        series = run.series(name)
        times = series.times.astype("int64").tolist()
        assert sorted(zip(series.steps.tolist(), map(repr, series.values.tolist()), times, strict=True)) == theirs
    assert lost(run) == {}


@pytest.mark.parametrize("kind", ["database", "files"])
def test_what_describes_a_run_comes_over(
    stores: dict[str, tuple[Path, MlflowClient, str]], tmp_path: Path, kind: str
) -> None:
    """Params as numbers only where that is exact, tags, notes, parents, states, times, and where the artifacts are."""
    path, client, run_id = stores[kind]
    child, run = opened(path, tmp_path / "cache")
    assert (run.project, run.id, run.state) == ("an experiment", run_id, "finished")
    assert (run.config["lr"], run.config["version"], run.config["name"]) == (0.1, "1.10", "a b")
    assert "sk-7" not in str(run.config)
    assert run.tags == ("team=blue",) and run.environment["source"]["notes"] == "a note"
    assert run.created == client.get_run(run_id).info.start_time * 10**6
    assert (child.name, child.state, child.environment["source"]["parent"]) == ("child", "failed", run_id)
    (artifact,) = run.table("artifacts")
    assert artifact["name"] == "model.txt" and Path(str(artifact["path"])).read_text() == "weights"


def test_new_rows_of_a_database_are_added_once(
    stores: dict[str, tuple[Path, MlflowClient, str]], tmp_path: Path
) -> None:
    """A row that is already there is not read again."""
    copy = tmp_path / "mlflow.db"
    shutil.copy(stores["database"][0], copy)
    for count in (1, 2, 2):
        (child, _) = opened(copy, tmp_path / "cache")
        assert len(child.series("y")) == min(count, 2)
        if count == 1:
            with sqlite3.connect(copy) as connection:
                connection.execute("INSERT INTO metrics VALUES ('y', 2.0, 1700000000000, ?, 2, 0)", (child.id,))


def test_more_points_than_the_client_returns_at_once(tmp_path: Path) -> None:
    """The client's own limit of 25,000 is not ours."""
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        for statement in (
            "CREATE TABLE runs (run_uuid, name, status, start_time, end_time, artifact_uri, experiment_id, lifecycle_stage)",
            "CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan)",
            "CREATE TABLE params (key, value, run_uuid)",
            "CREATE TABLE tags (key, value, run_uuid)",
            "CREATE TABLE experiments (experiment_id, name)",
            "INSERT INTO runs VALUES ('r', 'n', 'RUNNING', 1, NULL, '', 1, 'active')",
        ):
            connection.execute(statement)
        connection.executemany(
            "INSERT INTO metrics VALUES ('m', ?, 1, 'r', ?, 0)", [(step / 7, step) for step in range(60_000)]
        )
    (run,) = opened(path, tmp_path / "cache")
    assert values(run)["m"] == sorted([(step, step / 7) for step in range(60_000)], key=repr)


@pytest.mark.parametrize("damage", [b"", b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 200, b"text" * 100])
def test_what_is_not_a_database_is_left_alone(tmp_path: Path, damage: bytes) -> None:
    """A name that ends in `.db` promises nothing."""
    (tmp_path / "x.db").write_bytes(damage)
    assert opened(tmp_path, tmp_path / "cache") == []


def test_a_damaged_database_shows_what_it_holds(
    stores: dict[str, tuple[Path, MlflowClient, str]], tmp_path: Path
) -> None:
    """Cut anywhere, a database gives points that were in it, or names why it does not."""
    folder = tmp_path / "store"
    folder.mkdir()
    shutil.copy(stores["database"][0], folder / "x.db")
    whole = {run.name: values(run) for run in opened(folder, tmp_path / "cache")}
    for copy in foreign_stores.cuts(folder, "x.db", tmp_path, 8):
        for run in opened(copy, tmp_path / "cache"):
            foreign_stores.assert_part_of(values(run), whole.get(run.name, {}))


def test_a_locked_database_is_named(
    stores: dict[str, tuple[Path, MlflowClient, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another process that writes for a long time does not make it fail."""
    copy = tmp_path / "mlflow.db"
    shutil.copy(stores["database"][0], copy)
    with sqlite3.connect(copy) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert opened(copy, tmp_path / "cache") == []
        connection.rollback()
    assert f"{copy} cannot be read" in capsys.readouterr().err
    assert len(opened(copy, tmp_path / "cache")) == 2


def test_views_and_triggers_of_a_database_are_not_run(tmp_path: Path) -> None:
    """A view in place of a table could do anything; it is not read."""
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        for name in ("runs", "metrics", "params", "tags"):
            connection.execute(f"CREATE TABLE {name} (run_uuid)")
        connection.execute("CREATE VIEW experiments AS SELECT load_extension('evil')")
    assert opened(path, tmp_path / "cache") == []


def test_a_cut_line_of_a_metric_is_left_for_the_next_time(
    stores: dict[str, tuple[Path, MlflowClient, str]], tmp_path: Path
) -> None:
    """A line without its end is not a point, and is reported."""
    folder = tmp_path / "mlruns"
    shutil.copytree(stores["files"][0], folder)
    (metric,) = folder.glob("*/*/metrics/train/loss")
    whole = {run.name: values(run) for run in opened(folder, tmp_path / "cache")}
    metric.write_bytes(metric.read_bytes()[:-9])
    (run,) = [one for one in opened(folder, tmp_path / "other") if one.name == "parent"]
    foreign_stores.assert_part_of(values(run), whole["parent"])
    assert any("unfinished" in reason for reason in lost(run))
