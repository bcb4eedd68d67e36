"""Datasets as HDF5 in NetCDF 4 form, for xarray, h5py, and every other tool that reads either.

Written with h5py alone, and each scale's list of users in one go. h5netcdf queries the file again for every detail of
every variable, and rewrites the list each time it grows, which is about ten times slower.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import xarray as xr
from numpy.typing import NDArray

TIME = {"units": "nanoseconds since 1970-01-01", "calendar": "proleptic_gregorian"}
ALONE = "This is a netCDF dimension but not a netCDF variable. {:10}"  # NetCDF's name for a dimension without values
USE = np.dtype([("dataset", h5py.ref_dtype), ("dimension", np.int32)])  # of a scale: the dataset, and its axis


def write(one: xr.Dataset, path: Path) -> None:
    """Write a dataset with its dimensions as scales, and its variables in order."""
    beside = " ".join(str(name) for name in one.coords if name not in one.sizes)
    with h5py.File(path, "w", libver=("v108", "v108"), track_order=True) as file:
        scales = {str(dim): _scale(file, one, str(dim), size) for dim, size in one.sizes.items()}
        uses: dict[str, list[tuple[h5py.Reference, int]]] = {dim: [] for dim in scales}
        for name, variable in one.variables.items():
            if name in scales:
                continue
            stored = file.create_dataset(str(name), data=_plain(variable.values))
            about = {**variable.attrs, **(TIME if variable.dtype.kind == "M" else {})}
            for key, text in (about if name in one.coords else {**about, "coordinates": beside}).items():
                stored.attrs[key] = text
            dims = [str(dim) for dim in variable.dims]
            stored.attrs["DIMENSION_LIST"] = _lists([scales[dim].ref for dim in dims])
            for axis, dim in enumerate(dims):
                uses[dim].append((stored.ref, axis))
        for dim, used in uses.items():
            if used:
                scales[dim].attrs["REFERENCE_LIST"] = np.array(used, USE)


def _scale(file: h5py.File, one: xr.Dataset, dim: str, size: int) -> h5py.Dataset:
    if dim in one.coords:
        scale, name = file.create_dataset(dim, data=one[dim].values), dim
    else:
        scale, name = file.create_dataset(dim, (size,), ">f4"), ALONE.format(size)
    scale.make_scale(name)
    return scale


def _lists(references: list[h5py.Reference]) -> NDArray[np.object_]:
    """A list of scales per axis, each with one."""
    lists = np.empty(len(references), h5py.vlen_dtype(h5py.ref_dtype))
    for axis, reference in enumerate(references):
        lists[axis] = np.array([reference], h5py.ref_dtype)
    return lists


def _plain(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Times as integers."""
    return values.astype("datetime64[ns]").view(np.int64) if values.dtype.kind == "M" else values
