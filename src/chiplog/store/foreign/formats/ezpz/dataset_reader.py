"""`python -m chiplog.store.foreign.formats.ezpz.dataset_reader FILE`: prints the series of an HDF5 file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import h5py

CHUNK = 20_000  # points per line
INDEX = ("step", "draw", "time")  # of a row, rather than values


def series(path: str) -> Iterator[dict[str, Any]]:
    with h5py.File(path, "r") as file:
        index = {name: file[name] for name in INDEX if _is_series(file, name)}
        for name in file:
            if name in INDEX:
                continue
            if not _is_series(file, name):
                yield {"lost": name}
                continue
            data = file[name]
            own = {key: one for key, one in index.items() if one.shape == data.shape}
            for at in range(0, len(data), CHUNK):
                part = slice(at, min(len(data), at + CHUNK))
                steps = own.get("step", own.get("draw"))
                line = {
                    "name": name,
                    "values": data[part].tolist(),
                    "steps": list(range(part.start, part.stop)) if steps is None else steps[part].tolist(),
                }
                yield line | ({"times": own["time"][part].tolist()} if "time" in own else {})


def _is_series(file: h5py.File, name: str) -> bool:
    """One-dimensional numbers in this very file: a link could lead to any other."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        return False
    data = file[name]
    if not isinstance(data, h5py.Dataset) or data.is_virtual or data.external is not None:
        return False
    return data.ndim == 1 and data.dtype.kind in "fiub" and not _is_empty_scale(data)


def _is_empty_scale(data: h5py.Dataset) -> bool:
    """NetCDF's dimension without values."""
    return b"netCDF dimension but not" in bytes(data.attrs.get("NAME", b""))


if __name__ == "__main__":
    for line in series(sys.argv[1]):
        sys.stdout.write(json.dumps(line) + "\n")
