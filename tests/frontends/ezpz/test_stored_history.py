"""Datasets and plots of a history that has not ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

from chiplog.frontends.ezpz import History


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("EZPZ_", "WANDB_", "WB_"))]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("values", "warmup", "dims", "shape"),
    [
        ([1.0] * 10, 0.1, ("draw",), (9,)),
        ([torch.ones(3)] * 4, 1, ("chain", "draw"), (3, 3)),
        (np.ones((4, 2, 3)), 0, ("chain", "leapfrog", "draw"), (3, 2, 4)),
    ],
)
def test_values_as_data_arrays(values: Any, warmup: float, dims: tuple[str, ...], shape: tuple[int, ...]) -> None:
    """Numbers by draw, vectors by chain, matrices by leapfrog too; without the warm-up."""
    array = History().to_DataArray(values, warmup)
    assert array.dims == dims and array.shape == shape


def test_what_has_no_dimensions_here_is_refused() -> None:
    with pytest.raises(ValueError, match="4 dimensions"):
        History().to_DataArray(np.ones((2, 2, 2, 2)))


def test_datasets_while_it_runs(tmp_path: Path) -> None:
    """By group, as one, of values that are given, and as a file."""
    history = History()
    for step in range(4):
        history.update({"train/loss": 1.0 * step, "eval/acc": 0.5}, step=step)
    assert {group: one.sizes["draw"] for group, one in history.get_grouped_datasets(1).items()} == {
        "train": 3,
        "eval": 3,
    }
    assert set(history.get_dataset().data_vars) == {"train_loss", "eval_acc"}
    assert history.get_dataset(data={"a/b": [1.0, 2.0]})["a_b"].to_numpy().tolist() == [1.0, 2.0]
    path = history.save_dataset(tmp_path / "out", "mine", data={"x": [1.0]})
    assert path == tmp_path / "out" / "mine.h5"
    with xr.open_dataset(path) as dataset:
        assert list(dataset.data_vars) == ["x"]


def test_pictures_while_it_runs(tmp_path: Path) -> None:
    """One of values, with matplotlib's own options, and those of all metrics."""
    history = History()
    history.update({"train/loss": 1.0, "lr": 0.1})
    figure, axes = history.plot(
        [3.0, 1.0], "loss", outdir=tmp_path, plot_kwargs={"color": "red"}, subplots_kwargs={"figsize": (2, 1)}
    )
    assert axes.lines[-1].get_color() == "red" and tuple(figure.get_size_inches()) == (2, 1)
    assert (tmp_path / "loss.png").exists()
    figure, axes = history.plot([[1.0, 2.0]] * 3, num_chains=2)
    assert len(axes.lines) == 3  # two chains and their mean
    assert "loss" in history.plot_all(outdir=tmp_path / "all").data_vars
    assert {path.name for path in (tmp_path / "all" / "train").iterdir()} == {"loss.png", "lr.png"}
