"""trackio's database, written by its client, against its own storage."""

from __future__ import annotations

import math
import shutil
import sqlite3
from pathlib import Path

from chiplog.core import records
from tests.support.foreign_stores import lost, opened, values


def test_every_value_is_that_of_trackio(written: tuple[Path, list[dict[str, object]]], tmp_path: Path) -> None:
    """The numbers of all rows, with their steps; NaN and infinities are numbers."""
    folder, logs = written
    (run,) = opened(folder, tmp_path / "cache")
    assert values(run)["loss"] == sorted([(row["step"], row["loss"]) for row in logs if "loss" in row], key=repr)
    assert values(run)["nested/a"] == sorted([(step, float(step)) for step in range(30)], key=repr)
    assert dict(values(run)["odd"])[0] == -math.inf and math.isnan(dict(values(run)["odd"])[7])
    assert values(run)["x"] == [(100, 2.5)] and values(run)["system/gpu"] == [(0, 5.0)]
    assert lost(run) == {}


def test_config_media_and_alerts_come_over(written: tuple[Path, list[dict[str, object]]], tmp_path: Path) -> None:
    """Whatever is more than a number."""
    (run,) = opened(written[0], tmp_path / "cache")
    assert (run.project, run.name, run.config) == ("proj", "first", {"lr": 0.1, "model": {"dim": 3}})
    (picture,) = run.records("file")
    assert isinstance(picture, records.File) and (run.path / picture.path).read_bytes().startswith(b"\x89PNG")
    (alert,) = run.records("alert")
    assert isinstance(alert, records.Alert) and (alert.title, alert.level) == ("careful", "error")
    assert [text.text for text in run.records("text")] == ["hello"]  # type: ignore[union-attr]


def test_a_database_that_is_being_written_is_read_whole(
    written: tuple[Path, list[dict[str, object]]], tmp_path: Path
) -> None:
    """What is committed but still in the write-ahead log counts; nothing is created beside the database."""
    folder = tmp_path / "store"
    shutil.copytree(written[0], folder)
    connection = sqlite3.connect(folder / "proj.db")
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        (run,) = opened(folder, tmp_path / "cache")
        connection.execute(
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) "
            "SELECT run_id, timestamp, run_name, 200, ? FROM metrics LIMIT 1",
            (b'{"late": 1.5}',),
        )
        connection.commit()
        (run,) = opened(folder, tmp_path / "cache")
        assert values(run)["late"] == [(200, 1.5)] and len(run.series("loss")) == 30
    finally:
        connection.close()
