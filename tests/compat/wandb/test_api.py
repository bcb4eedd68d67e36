"""`wandb.Api` over stored runs."""

from __future__ import annotations

from typing import Any

import pytest

import chiplog.compat.wandb as wandb


@pytest.fixture
def runs() -> None:
    for number in range(4):
        with wandb.init(
            project="p", id=f"r{number}", name=f"name {number}", group="even" if number % 2 == 0 else "odd", tags=[f"t{number}"],
            config={"lr": number / 10, "model": {"depth": number}}, entity="team",
        ) as run:  # fmt: skip
            for step in range(10):
                run.log({"loss": number + 1 / (step + 1), "acc": step} if step % 2 == 0 else {"loss": float(number)})


@pytest.mark.parametrize("path", ["team/p/r1", "p/r1", "r1"])
def test_a_run_is_found_by_its_path(path: str, runs: None) -> None:
    """With entity and project, with the project, or by its id alone."""
    run = wandb.Api().run(path)
    assert (run.id, run.name, run.project, run.entity, run.group, run.state) == (
        "r1",
        "name 1",
        "p",
        "team",
        "odd",
        "finished",
    )
    assert run.config == {"lr": 0.1, "model": {"depth": 1}} and run.tags == ["t1"]
    assert run.summary["loss"] == 1.0 and run.summary["acc"] == 8 and run.lastHistoryStep == 9


def test_the_history_has_rows(runs: None) -> None:
    """All rows, samples of them, some keys, as a data frame or not, and from step to step."""
    run = wandb.Api().run("r0")
    frame = run.history()
    assert list(frame["_step"]) == list(range(10)) and frame["loss"][0] == 1.0
    assert len(run.history(samples=3)) == 3
    assert [row["acc"] for row in run.history(keys=["acc"], pandas=False)] == [0, 2, 4, 6, 8]
    assert [row["loss"] for row in run.scan_history(keys=["loss"], min_step=8)] == [1 / 9, 0.0]
    assert [row["_step"] for row in run.scan_history(min_step=2, max_step=4)] == [2, 3]


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({}, ["r0", "r1", "r2", "r3"]),
        ({"config.lr": 0.1}, ["r1"]),
        ({"config.lr": {"$gt": 0.1}}, ["r2", "r3"]),
        ({"config.model.depth": {"$in": [0, 3]}}, ["r0", "r3"]),
        ({"config.lr.value": {"$lte": 0.1}}, ["r0", "r1"]),
        ({"summary_metrics.loss": {"$lt": 1}}, ["r0"]),
        ({"tags": "t2"}, ["r2"]),
        ({"tags": {"$in": ["t2", "t0"]}}, ["r0", "r2"]),
        ({"group": "even"}, ["r0", "r2"]),
        ({"display_name": {"$regex": "name [12]"}}, ["r1", "r2"]),
        ({"state": "finished"}, ["r0", "r1", "r2", "r3"]),
        ({"state": {"$ne": "finished"}}, []),
        ({"$or": [{"config.lr": 0}, {"config.lr": 0.3}]}, ["r0", "r3"]),
        ({"$and": [{"group": "odd"}, {"config.lr": {"$gte": 0.2}}]}, ["r3"]),
        ({"config.absent": {"$exists": False}}, ["r0", "r1", "r2", "r3"]),
        ({"config.absent": {"$gt": 0}}, []),
        ({"config.lr": {"$unknown": 0}}, []),
    ],
)  # fmt: skip
def test_runs_are_filtered(filters: dict[str, Any], ids: list[str], runs: None) -> None:
    """MongoDB's operators over config, summary, tags, state and names."""
    assert [run.id for run in wandb.Api().runs("team/p", filters)] == ids


def test_runs_are_ordered(runs: None) -> None:
    """By creation, or by a value, forwards and backwards."""
    assert [run.id for run in wandb.Api().runs("p", order="-created_at")] == ["r3", "r2", "r1", "r0"]
    assert [run.id for run in wandb.Api().runs("p", order="-summary_metrics.loss")] == ["r3", "r2", "r1", "r0"]


def test_a_run_that_does_not_exist_is_an_error(runs: None) -> None:
    """Outside training, as in W&B."""
    with pytest.raises(wandb.CommError, match="chiplog ls"):
        wandb.Api().run("p/absent")
    with pytest.raises(wandb.CommError):
        wandb.Api().run("other/r1")
