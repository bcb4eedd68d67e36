"""Data arrays and datasets of what somebody gives, in the shapes a history has them: draw, chain, leapfrog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from chiplog.views.export import datasets
from chiplog.views.without_warmup import dropped

DIMS = {1: ("draw",), 2: ("chain", "draw"), 3: ("chain", "leapfrog", "draw")}


def to_data_array(values: Any, warmup: int | float = 0) -> xr.DataArray:
    """Values by step, without those of the warm-up: numbers by draw, vectors by chain, matrices by leapfrog too."""
    found = np.asarray([_host(one) for one in values] if isinstance(values, (list, tuple)) else _host(values))
    if found.ndim not in DIMS:
        raise ValueError(
            f"{found.ndim} dimensions have no names: give numbers, vectors or matrices by step, not {found.shape}"
        )
    found = np.moveaxis(found[dropped(warmup, len(found)) :], 0, -1)
    if found.ndim == 3:
        found = np.swapaxes(found, 0, 1)  # columns are chains, rows are leapfrogs
    dims = DIMS[found.ndim]
    return xr.DataArray(found, dims=dims, coords={name: np.arange(size) for name, size in zip(dims, found.shape)})  # noqa: B905


def from_data(data: Mapping[str, Sequence[Any]], warmup: int | float = 0) -> xr.Dataset:
    """One dataset of values by name; a series that is shorter than others ends in NaN."""
    arrays = {}
    for name, values in data.items():
        array = to_data_array(values, warmup)
        if array.dtype.kind in "biuf":  # words have no place in it
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


def save(found: Mapping[str, xr.Dataset], outdir: Path, fname: str | None, use_hdf5: bool = True) -> list[Path]:
    """Write datasets by group; an only one under `fname`, where that is given."""
    if fname is not None and len(found) == 1:
        found = {Path(fname).stem: next(iter(found.values()))}
    return datasets.write(found, outdir, "h5" if use_hdf5 else "nc")


def _host(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value
