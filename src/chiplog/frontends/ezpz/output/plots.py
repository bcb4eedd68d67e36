"""Pictures with matplotlib's own options: `plot_kwargs` for lines, `subplots_kwargs` for axes, `xkey` for x."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import pyplot

from chiplog.views.charts import matplotlib_figures
from chiplog.views.metric_families import filename

LINES = 8  # chains that are drawn one by one, under their mean


def plot(
    values: xr.DataArray,
    name: str = "",
    *,
    num_chains: int = 0,
    title: str | None = None,
    x: Any = None,
    subplots_kwargs: Mapping[str, Any] | None = None,
    plot_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Any, Any]:
    """A figure and its axes: a line of numbers by draw; of vectors their mean, and some chains below it."""
    figure, axes = pyplot.subplots(**{"figsize": (6.0, 3.6), "dpi": matplotlib_figures.DPI, **(subplots_kwargs or {})})
    at = np.ravel(axes)[0] if isinstance(axes, np.ndarray) else axes
    across = values.dims.index("draw") if "draw" in values.dims else values.ndim - 1
    chains = np.moveaxis(values.to_numpy(), across, -1).reshape(-1, values.shape[across])
    below = np.arange(chains.shape[1]) if x is None else np.asarray(x)
    for chain in chains[: num_chains or LINES] if len(chains) > 1 else ():
        at.plot(below, chain, alpha=0.25, linewidth=0.8, color="0.5")
    at.plot(below, np.nanmean(chains, axis=0), **(plot_kwargs or {}))
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
    """A picture of every variable as `<group>/<name>.png`, where those of a finalized run are; gives them by name."""
    made: dict[str, Path] = {}
    for group, dataset in groups.items():
        where = folder / filename(group) if group else folder
        for variable, values in dataset.data_vars.items():
            full = str(values.attrs.get("name", variable))
            figure, _ = plot(
                values,
                full,
                num_chains=num_chains,
                title=title,
                x=_below(dataset, xkey),
                subplots_kwargs=subplots_kwargs,
                plot_kwargs=plot_kwargs,
            )
            made[full] = save(figure, where, full.removeprefix(f"{group}/") if group else full)
            pyplot.close(figure)
    return made


def save(figure: Any, folder: Path, name: str) -> Path:
    """Write a figure as `<name>.png`."""
    path = folder / f"{filename(name)}.png"
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight")
    return path


def _below(dataset: xr.Dataset, xkey: str | None) -> xr.DataArray | None:
    """What is on the x axis: the variable that is named, as it was logged or as it is called there, or the steps."""
    if xkey is None:
        steps = dataset["step"] if "step" in dataset.coords else None
        return None if steps is None or bool((np.diff(steps) < 0).any()) else steps  # draws, where steps begin again
    for name, values in dataset.data_vars.items():
        if xkey in (name, values.attrs.get("name")) and values.dims == ("draw",):
            return values
    return dataset[xkey] if xkey in dataset.coords else None
