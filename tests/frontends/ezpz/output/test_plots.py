"""Plots with matplotlib's own options."""

from __future__ import annotations

from pathlib import Path

import xarray as xr
from matplotlib import pyplot

from chiplog.frontends.ezpz.output import plots


def test_a_plot_takes_the_options_of_matplotlib() -> None:
    """For its axes and its line."""
    values = xr.DataArray([3.0, 2.0, 1.0], dims=("draw",))
    figure, axes = plots.plot(values, "loss", subplots_kwargs={"figsize": (2, 1)}, plot_kwargs={"color": "red"})
    assert figure.get_size_inches().tolist() == [2, 1] and axes.get_ylabel() == "loss"
    assert [line.get_color() for line in axes.lines] == ["red"]
    pyplot.close(figure)


def test_every_variable_has_a_file(tmp_path: Path) -> None:
    """In the folder of its group."""
    dataset = xr.Dataset({"loss": ("draw", [2.0, 1.0], {"name": "train/loss"})})
    paths = plots.plot_all({"train": dataset}, tmp_path)
    assert paths == {"train/loss": tmp_path / "train" / "loss.png"} and paths["train/loss"].stat().st_size > 0
