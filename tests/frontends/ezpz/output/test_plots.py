"""Plots with matplotlib's own options."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
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


def ranked() -> xr.Dataset:
    """A metric with its statistics across ranks."""
    values = {"": [2.0, 1.0], "mean": [3.0, 2.0], "min": [2.0, 1.0], "max": [4.0, 3.0], "std": [1.0, 1.0]}
    return xr.Dataset(
        {f"loss_{kind}": ("draw", each, {"name": f"train/loss/{kind}".rstrip("/")}) for kind, each in values.items()}
    )


def test_statistics_of_ranks_are_a_band(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One picture per metric: the mean, and the area from the lowest rank to the highest."""
    drawn = []
    save = plots.save
    monkeypatch.setattr(plots, "save", lambda figure, *how: drawn.append(figure.axes[0]) or save(figure, *how))
    assert list(plots.plot_all({"train": ranked()}, tmp_path)) == ["train/loss"]
    ((axes,),) = (drawn,)
    assert [line.get_ydata().tolist() for line in axes.lines] == [[3.0, 2.0]]
    (band,) = axes.collections
    assert band.get_datalim(axes.transData).intervaly.tolist() == [1.0, 4.0]


def test_an_unknown_x_axis_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the names that there are; a known one says nothing."""
    with caplog.at_level(logging.WARNING):
        plots.plot_all({"train": ranked()}, tmp_path, xkey="train/loss")
        assert not caplog.text
        plots.plot_all({"train": ranked()}, tmp_path, xkey="tokenz")
    assert "xkey='tokenz' is not a metric of the group 'train'" in caplog.text and "train/loss" in caplog.text
