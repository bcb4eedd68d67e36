"""Steps that begin again with each epoch, groups by call, and values in the order they came."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from chiplog.frontends.ezpz import History
from chiplog.views.charts import curve_data
from chiplog.views.metric_families import families


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_steps_that_begin_again_are_draws_in_the_order_of_updates() -> None:
    """In the dataset, its file, the table and the curves: nothing lies over anything else."""
    history = History(backends="csv", outdir="sheets")
    for epoch in range(2):
        for step in range(3):
            history.update({"loss": 10.0 * epoch + step, "v": [1.0 * epoch, 2.0]}, step=step)
    wanted = [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]
    assert history.history["loss"] == wanted
    drawn = curve_data.draw(history._stored, families(["loss"])[0])
    assert drawn.mean.tolist() == wanted and drawn.x.tolist() == sorted(drawn.x.tolist())
    found: Any = history.finalize(outdir="out")
    assert found["loss"].values.tolist() == wanted and found["step"].values.tolist() == [0, 1, 2, 0, 1, 2]
    assert found["v"].isel(chain=0).values.tolist() == [0.0] * 3 + [1.0] * 3
    with xr.open_dataset("out/dataset.h5") as kept:
        assert kept["loss"].values.tolist() == wanted
    rows = read("out/training_history.csv")
    assert [(row["step"], float(row["loss"])) for row in rows] == [(str(at % 3), one) for at, one in enumerate(wanted)]


def test_nan_is_nan_in_the_table() -> None:
    history = History(backends="csv", outdir="out")
    history.update({"loss": math.nan, "acc": 1.0})
    history.update({"loss": 2.0})
    history.finalize(outdir="out", plot=False)
    assert [(row["loss"], row["acc"]) for row in read("out/training_history.csv")] == [("nan", "1.0"), ("2.0", "")]
    assert [row["loss"] for row in read("out/metrics.csv")] == ["nan", "2.0"]


def test_names_without_a_group_have_their_own() -> None:
    """Unless each of their calls had metrics of one: no dataset is padded with NaN."""
    history = History()
    for step in range(10):
        history.update({"train/loss": 1.0, "beside": 2.0}, step=step)
    for step in range(4):
        history.update({"eval/acc": 0.5}, step=step)
    for step in range(6):
        history.update({"lr": 0.1, "dt": 0.2}, step=step)
    found: Any = history.finalize(outdir="out", plot=False)
    assert {group: one.sizes["draw"] for group, one in found.items()} == {"train": 10, "eval": 4, "": 6}
    assert set(found["train"].data_vars) == {"loss", "beside"} and set(found[""].data_vars) == {"lr", "dt"}


def test_the_history_has_values_as_they_were_given() -> None:
    """Integers stay integers; texts stand where they came, and None is kept as one."""
    history = History()
    for value in (1, "words", 2.5, None, 3):
        history.update({"x": value, "n": 7})
    assert history.history == {"x": [1, "words", 2.5, "None", 3], "n": [7] * 5}
    assert [type(one) for one in history.history["n"]] == [int] * 5


def test_keys_and_steps_of_other_types_are_understood() -> None:
    history = History()
    assert history.update({1: 2.0}) == "1=2.000000"  # type: ignore[dict-item]
    history.update({"loss": 1.0}, step="70")  # type: ignore[arg-type]
    history.update({"loss": 2.0})
    found: Any = history.get_dataset()
    assert history.history == {"1": [2.0], "loss": [1.0, 2.0]}
    assert found["step"].values.tolist() == [0, 70, 71]
