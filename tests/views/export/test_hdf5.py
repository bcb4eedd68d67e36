"""Datasets as HDF5."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import xarray as xr

from chiplog.views.export import hdf5


def test_a_dataset_is_read_back_as_it_was(tmp_path: Path) -> None:
    """With dimensions, coordinates, times to the nanosecond, and attributes; also a dimension without values."""
    times = np.array([1, 2], "datetime64[ns]")
    variables = {"loss": ("draw", [1.0, np.nan], {"name": "train/loss"}), "load": (("chain", "draw"), np.eye(2))}
    one = xr.Dataset(variables, coords={"draw": [0, 1], "step": ("draw", [5, 6]), "time": ("draw", times)})
    hdf5.write(one, tmp_path / "one.h5")
    with xr.open_dataset(tmp_path / "one.h5", engine="h5netcdf") as read:
        xr.testing.assert_equal(read.load(), one)
        assert read["loss"].attrs["name"] == "train/loss"


def test_other_tools_see_the_dimensions_as_scales(tmp_path: Path) -> None:
    """As NetCDF 4 has them."""
    hdf5.write(xr.Dataset({"a": ("draw", [1.0])}, coords={"draw": [0]}), tmp_path / "one.h5")
    with h5py.File(tmp_path / "one.h5") as file:
        assert file["draw"].is_scale and file["a"].dims[0][0].name == "/draw"
