"""Plots with matplotlib's own options: `plot_kwargs` for lines, `subplots_kwargs` for axes, `xkey` for the x axis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib import pyplot

from chiplog.views.charts import matplotlib_figures
from chiplog.views.metric_families import filename

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 8  # chains that are drawn one by one, behind their mean


def plot(
    values: xr.DataArray,
    name: str = "",
    *,
    num_chains: int = 0,
    title: str | None = None,
    x: xr.DataArray | None = None,
    subplots_kwargs: Mapping[str, Any] | None = None,
    plot_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Figure, Any]:
    """A figure and its axes: numbers by draw as a line, vectors as their mean with some chains behind it."""
    figure, axes = pyplot.subplots(**{"figsize": (6.0, 3.6), "dpi": matplotlib_figures.DPI, **(subplots_kwargs or {})})
    at = np.ravel(axes)[0] if isinstance(axes, np.ndarray) else axes
    across = values.dims.index("draw") if "draw" in values.dims else values.ndim - 1
    chains = np.moveaxis(values.to_numpy(), across, -1).reshape(-1, values.shape[across])
    xs = np.arange(chains.shape[1]) if x is None else np.asarray(x)
    for chain in chains[: num_chains or LINES] if len(chains) > 1 else ():
        at.plot(xs, chain, alpha=0.25, linewidth=0.8, color="0.5")
    at.plot(xs, np.nanmean(chains, axis=0), **(plot_kwargs or {}))
    at.set(xlabel="draw" if x is None else getattr(x, "name", None) or "x", ylabel=name, title=title or "")
    return figure, axes


def plot_all(
    groups: Mapping[str, xr.Dataset],
    folder: Path,
    *,
    xkey: str | None = None,
    num_chains: int = 0,
    title: str | None = None,
    subplots_kwargs: Mapping[str, Any] | None = None,
    plot_kwargs: Mapping[str, Any] | None = None,
) -> dict[str, Path]:
    """Plot every variable as `<group>/<name>.png`, like those of a finalized run; returns the paths by name."""
    paths: dict[str, Path] = {}
    for group, dataset in groups.items():
        where = folder / filename(group) if group else folder
        for variable, values in dataset.data_vars.items():
            full = str(values.attrs.get("name", variable))
            figure, _ = plot(
                values,
                full,
                num_chains=num_chains,
                title=title,
                x=_x_values(dataset, xkey),
                subplots_kwargs=subplots_kwargs,
                plot_kwargs=plot_kwargs,
            )
            paths[full] = save(figure, where, full.removeprefix(f"{group}/") if group else full)
            pyplot.close(figure)
    return paths


def save(figure: Figure, folder: Path, name: str) -> Path:
    """Write a figure as `<name>.png`."""
    path = folder / f"{filename(name)}.png"
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight")
    return path


def _x_values(dataset: xr.Dataset, xkey: str | None) -> xr.DataArray | None:
    """The x axis: the variable `xkey`, by its logged name or its name in the dataset, or the steps."""
    if xkey is None:
        steps = dataset["step"] if "step" in dataset.coords else None
        return None if steps is None or bool((np.diff(steps) < 0).any()) else steps  # draws, if steps start again
    for name, values in dataset.data_vars.items():
        if xkey in (name, values.attrs.get("name")) and values.dims == ("draw",):
            return values
    return dataset[xkey] if xkey in dataset.coords else None
