"""Arrays and datasets in the dimensions of a history: draw, chain, leapfrog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from chiplog import Stored
from chiplog.views.export import datasets
from chiplog.views.without_warmup import dropped

DIMS = {1: ("draw",), 2: ("chain", "draw"), 3: ("chain", "leapfrog", "draw")}


def to_data_array(values: Any, warmup: int | float = 0) -> xr.DataArray:
    """Values by step, without the warm-up: numbers by draw, vectors also by chain, matrices also by leapfrog."""
    array = np.asarray([_host(one) for one in values] if isinstance(values, (list, tuple)) else _host(values))
    if array.ndim not in DIMS:
        raise ValueError(
            f"values of shape {array.shape} have {array.ndim} dimensions; pass numbers, vectors or matrices by step"
        )
    array = np.moveaxis(array[dropped(warmup, len(array)) :], 0, -1)
    if array.ndim == 3:
        array = np.swapaxes(array, 0, 1)  # columns are chains, rows are leapfrogs
    dims = DIMS[array.ndim]
    coords = {name: np.arange(size) for name, size in zip(dims, array.shape, strict=True)}
    return xr.DataArray(array, dims=dims, coords=coords)


def of_run(stored: Stored, warmup: int | float = 0) -> dict[str, xr.Dataset]:
    """The datasets of all groups of a run."""
    return dict(datasets.datasets(stored, warmup=warmup))


def from_data(data: Mapping[str, Sequence[object]], warmup: int | float = 0) -> xr.Dataset:
    """One dataset from values by name; a series that is shorter than others ends in NaN."""
    arrays = {}
    for name, values in data.items():
        array = to_data_array(values, warmup)
        if array.dtype.kind in "biuf":  # text is left out
            array.attrs["name"] = name
            arrays[name.replace("/", "_")] = array
    return xr.Dataset(arrays)


def joined(groups: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """The datasets of all groups as one, by draw: `train/loss` is `train_loss`."""
    parts = [
        one.drop_vars(("step", "time"), errors="ignore").rename(
            {name: f"{group}_{name}" for name in one.data_vars if group}
        )
        for group, one in groups.items()
    ]
    return xr.merge(parts, join="outer", compat="override", combine_attrs="override") if parts else xr.Dataset()


def only(groups: Mapping[str, xr.Dataset]) -> xr.Dataset | dict[str, xr.Dataset]:
    """The only dataset, or all of them by group."""
    if len(groups) > 1:
        return dict(groups)
    return next(iter(groups.values()), xr.Dataset())


def save(groups: Mapping[str, xr.Dataset], outdir: Path, fname: str | None, use_hdf5: bool = True) -> list[Path]:
    """Write datasets by group; if there is only one, under `fname`."""
    if fname is not None and len(groups) == 1:
        groups = {Path(fname).stem: next(iter(groups.values()))}
    return datasets.write(groups, outdir, "h5" if use_hdf5 else "nc")


def _host(value: Any) -> object:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value
