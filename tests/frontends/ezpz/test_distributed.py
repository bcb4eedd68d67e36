"""Histories on several ranks, over a real process group."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    subprocess.run([sys.executable, "-m", "tests.frontends.ezpz.ranks", str(folder)], cwd=ROOT, check=True, timeout=110)
    return folder, json.loads((folder / "results.json").read_text())


def test_rank_0_has_the_statistics(told: tuple[Path, dict[str, Any]]) -> None:
    """Mean, extremes and the deviation of the population, in doubles, whatever the order of the names."""
    found = told[1]["statistics"][0]["value"]["history"]
    stats = {stat: found[f"train/loss/{stat}"] for stat in ("mean", "max", "min", "std")}
    assert stats == {"mean": [1.5], "max": [2.0], "min": [1.0], "std": [0.5]}
    assert found["big/mean"] == [123456789.5] and found["big/std"] == [0.5]


def test_the_history_has_what_was_logged_here(told: tuple[Path, dict[str, Any]]) -> None:
    """On rank 0 nothing about the ranks that nobody logged; on another rank its own values, and no statistics."""
    first, second = told[1]["many"][0]["value"], told[1]["statistics"][1]["value"]
    assert "ranks/skew" in first["stored"]
    assert not any(name.startswith("ranks") for name in (*first["history"], *first["groups"]))
    assert second["history"] == {
        "bad": [pytest.approx(math.nan, nan_ok=True)],
        "iter": [8],
        "lr": [1e-3],
        "big": [123456790],
        "train/loss": [2.0],
    }
    assert second["groups"]["train"] == {"loss": [2.0]}


def test_a_name_that_a_rank_lacks_has_its_count(told: tuple[Path, dict[str, Any]]) -> None:
    """Nobody hangs; what is there is counted. What is not a number is there, and is in the statistics."""
    found = told[1]["statistics"][0]["value"]["history"]
    assert found["mine/mean"] == [4.0] and found["mine/count"] == [1]
    assert math.isnan(found["bad/mean"][0]) and math.isnan(found["bad/max"][0]) and "bad/count" not in found


def test_the_line_has_the_deviation(told: tuple[Path, dict[str, Any]]) -> None:
    """Counters and hyperparameters are bare; other ranks have their own values alone."""
    first, second = (rank["value"]["line"] for rank in told[1]["statistics"])
    assert first.startswith("train/loss=1.000(±  0.50) big=123456789(±  0.50) lr=0.001000 iter=8")
    assert "train/loss=2.000" in second and "±" not in second


def test_only_rank_0_writes(told: tuple[Path, dict[str, Any]]) -> None:
    """One run, one journal; the datasets have the statistics as variables, the text plots their panels."""
    place = told[0] / "statistics"
    assert [path.name[:6] for path in place.glob("runs/*/*/journal/*.jsonl")] == ["r00000"]
    with xr.open_dataset(place / "out" / "train.h5") as train:
        assert {"loss", "loss_mean", "loss_max", "loss_min", "loss_std"} <= set(train.data_vars)
    text = (place / "out" / "plots" / "tplot" / "train" / "loss.txt").read_text()
    assert "train/loss/mean histogram" in text and "·· train/loss/mean" in text
    (line,) = [json.loads(line) for line in (place / "out" / "metrics.jsonl").read_text().splitlines()]
    assert line["aggregated"]["train/loss/std"] == 0.5 and line["metrics"]["train/loss"] == 1.0


def test_statistics_can_be_switched_off(told: tuple[Path, dict[str, Any]]) -> None:
    first, second = (rank["value"] for rank in told[1]["switched_off"])
    assert first == {"line": "loss=1.000000", "on": False} and second == {"line": "loss=2.000000", "on": False}
