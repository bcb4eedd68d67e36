"""Metrics as points."""

from __future__ import annotations

import time

import pytest
from mlflow import MlflowClient

import chiplog
from chiplog.compat.mlflow import metric_points


def test_only_times_of_another_moment_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point has the time of its call already."""
    monkeypatch.setattr(metric_points, "CLOSE", 60_000)  # however slow the machine is
    client = MlflowClient()
    run_id = client.create_run("0").info.run_id
    client.log_metric(run_id, "now", 1.0)
    client.log_metric(run_id, "then", 1.0, timestamp=1_000_000)
    client.set_terminated(run_id)
    stored = chiplog.read(f"runs/default/{run_id}")
    assert [row["metric"] for row in stored.table(metric_points.TIMES)] == ["then"]
    (now,), (then,) = client.get_metric_history(run_id, "now"), client.get_metric_history(run_id, "then")
    assert then.timestamp == 1_000_000 and abs(now.timestamp - time.time() * 1000) < 60_000


def test_the_newest_point_is_that_of_the_highest_step() -> None:
    """Of all attempts, not only of the default view."""
    for values in ([(5, 1.0), (9, 2.0), (3, 3.0)], [(0, 4.0), (9, 5.0)], [(1, 6.0)]):
        with chiplog.init(project="p", id="a", resume="allow", sinks="none") as run:
            for step, value in values:
                run.log({"loss": value}, step=step)
    stored = chiplog.read(run.dir)
    assert [point.value for point in metric_points.history(stored, "loss")] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert {name: (point.step, point.value) for name, point in metric_points.latest(stored).items()} == {
        "loss": (9, 5.0)
    }
