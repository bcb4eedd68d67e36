"""The points of a run as tables of other libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.store.reader import Stored


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        for step in (1, 2):
            run.log({"loss": 1.0 / step}, step=step)
        run.log({"lr": 0.1}, step=2)
    return chiplog.read(run.dir)


def test_a_long_table_has_a_row_per_point(stored: Stored) -> None:
    """By name."""
    rows = stored.to_arrow().select(["name", "step", "value"]).to_pylist()
    points = sorted((row["name"], row["step"], row["value"]) for row in rows)
    assert points == [("loss", 1, 1.0), ("loss", 2, 0.5), ("lr", 2, 0.1)]


def test_a_wide_table_has_a_row_per_step(stored: Stored) -> None:
    """And a column per series, with NaN where a step has no value."""
    assert stored.to_polars().columns == ["step", "loss", "lr"]
    assert [row[:2] for row in stored.to_polars().rows()] == [(1, 1.0), (2, 0.5)]


def test_a_dataset_has_a_variable_per_series(stored: Stored) -> None:
    """By step."""
    dataset = stored.to_xarray()
    assert dataset["loss"].to_series().dropna().to_list() == [1.0, 0.5]
