"""Plots with matplotlib's own options: `plot_kwargs` for lines, `subplots_kwargs` for axes, `xkey` for the x axis."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib import pyplot

from chiplog.views.charts import matplotlib_figures
from chiplog.views.metric_families import families, filename

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger("chiplog.ezpz")

LINES = 8  # chains that are drawn one by one, behind their mean


def plot(
    values: xr.DataArray,
    name: str = "",
    *,
    num_chains: int = 0,
    title: str | None = None,
    x: xr.DataArray | None = None,
    band: tuple[xr.DataArray, xr.DataArray] | None = None,
    subplots_kwargs: Mapping[str, Any] | None = None,
    plot_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Figure, Any]:
    """A figure and its axes: numbers by draw as a line, with the `band` of the ranks behind it, vectors as their mean
    with some chains behind it."""
    figure, axes = pyplot.subplots(**{"figsize": (6.0, 3.6), "dpi": matplotlib_figures.DPI, **(subplots_kwargs or {})})
    at = np.ravel(axes)[0] if isinstance(axes, np.ndarray) else axes
    across = values.dims.index("draw") if "draw" in values.dims else values.ndim - 1
    chains = np.moveaxis(values.to_numpy(), across, -1).reshape(-1, values.shape[across])
    xs = np.arange(chains.shape[1]) if x is None else np.asarray(x)
    for chain in chains[: num_chains or LINES] if len(chains) > 1 else ():
        at.plot(xs, chain, alpha=0.25, linewidth=0.8, color="0.5")
    (drawn,) = at.plot(xs, np.nanmean(chains, axis=0), **(plot_kwargs or {}))
    if band is not None:
        at.fill_between(xs, *band, color=drawn.get_color(), alpha=0.2, linewidth=0)
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
    """Plot every metric as `<group>/<name>.png`, like those of a finalized run; returns the paths by name.

    Statistics across ranks are not plots of their own: the line is their mean, in the band from minimum to maximum.
    """
    paths: dict[str, Path] = {}
    for group, dataset in groups.items():
        where = folder / filename(group) if group else folder
        variables = {str(values.attrs.get("name", name)): values for name, values in dataset.data_vars.items()}
        x = _x_values(dataset, xkey)
        if x is None and xkey is not None:
            logger.warning(
                "xkey=%r is not a metric of %s, so its plots are by draw; available: %s",
                xkey, f"the group {group!r}" if group else "this history", ", ".join(variables),
            )  # fmt: skip
        for family in families(variables):
            mean = variables.get(family.curves.get("mean", ""), variables.get(family.name))
            if mean is None:
                continue
            edges = [variables[family.curves[one]] for one in ("min", "max") if one in family.curves]
            figure, _ = plot(
                mean,
                family.name,
                num_chains=num_chains,
                title=title,
                x=x,
                band=(edges[0], edges[1]) if len(edges) == 2 else None,
                subplots_kwargs=subplots_kwargs,
                plot_kwargs=plot_kwargs,
            )
            paths[family.name] = save(figure, where, family.name.removeprefix(f"{group}/") if group else family.name)
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
