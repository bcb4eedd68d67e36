"""A run as datasets: one for each group of metrics, with the steps and times its values were logged at.

A dataset has its own dimension `draw`: one for every step at which something of its group was logged, and one more for
each time a name was logged again at the same step. So a metric that begins late, or comes rarely, stands at its steps
and is NaN elsewhere. Vectors have a dimension `chain`, matrices `chain` and `leapfrog` (their columns and rows).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from chiplog.core.errors import BadSetting, MissingPackage
from chiplog.core.records import NONFINITE
from chiplog.store.columns import Floats, Ints, Steps
from chiplog.store.reader import Stored
from chiplog.views.facts import Facts
from chiplog.views.families import families, filename

UNGROUPED = "dataset"  # the file of names without a group
TAKEN = ("draw", "chain", "leapfrog", "step", "time")  # dimensions and coordinates


def datasets(stored: Stored, *, warmup: int | float = 0, facts: Facts | None = None) -> dict[str, xr.Dataset]:
    """The dataset of every group by its name, `""` for names without one.

    `warmup` leaves the first draws out: a fraction of all where it is a float, that many where it is an int.
    """
    pieces = [*_numbers(stored), *_arrays(facts or Facts(stored))]
    groups: dict[str, list[_Piece]] = {}
    for piece in pieces:
        groups.setdefault(piece.group, []).append(piece)
    found = {group: _dataset(members) for group, members in groups.items()}
    return {group: one.isel(draw=slice(dropped(warmup, one.sizes["draw"]), None)) for group, one in found.items()}


def dropped(warmup: int | float, count: int) -> int:
    """How many of `count` draws a warm-up leaves out."""
    if isinstance(warmup, bool) or warmup is None or not warmup > 0:
        return 0
    return min(count, warmup if isinstance(warmup, int) else int(min(warmup, 1.0) * count))


def write(found: Mapping[str, xr.Dataset], folder: Path, format: str = "h5") -> list[Path]:
    """Write each dataset to `<group>.<format>`, whole, so that writing twice gives the same files."""
    if format not in WRITERS:
        raise BadSetting(f"no format {format!r} for datasets; there are: {', '.join(WRITERS)}")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for group, one in found.items():
        path = folder / f"{filename(group or UNGROUPED, (path.stem for path in written))}.{format}"
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            WRITERS[format](one, aside)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        written.append(path)
    return written


# -- files -------------------------------------------------------------------------------------------------------------


def _to_hdf5(one: xr.Dataset, path: Path) -> None:
    try:
        from chiplog.views import hdf5
    except ImportError as error:
        raise MissingPackage(f"HDF5 and NetCDF need the package {error.name!r}: pip install 'chiplog[data]'") from None
    hdf5.write(one, path)


def _to_parquet(one: xr.Dataset, path: Path) -> None:
    _flat(one).to_parquet(path)


def _to_csv(one: xr.Dataset, path: Path) -> None:
    _flat(one).to_csv(path, index=False, date_format="%Y-%m-%dT%H:%M:%S.%fZ")


def _flat(one: xr.Dataset) -> Any:
    """A data frame of what has a value a draw, its names as they were logged; arrays have no place in it."""
    scalars = [name for name, values in one.data_vars.items() if values.dims == ("draw",)]
    frame = one[scalars].to_dataframe().reset_index(drop=True)
    names = {name: one[name].attrs["name"] for name in scalars}
    return frame[["step", "time", *scalars]].rename(columns=names)


WRITERS: dict[str, Callable[[xr.Dataset, Path], None]] = {
    "h5": _to_hdf5,
    "nc": _to_hdf5,
    "parquet": _to_parquet,
    "csv": _to_csv,
}


# -- from the run ------------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """What becomes one variable: its values with the draw last, in the order of their steps."""

    group: str
    name: str  # within the group
    full: str
    steps: Steps
    repeats: Ints  # how many of the same step stand before each
    times: Ints
    values: Floats


def _numbers(stored: Stored) -> Iterable[_Piece]:
    for family in families(stored.names()):
        for name in (family.name, *family.statistics.values()):
            series = stored.series(name)
            if not len(series):  # a newer launch hides it
                continue
            order = np.argsort(series.steps, kind="stable")
            steps = series.steps[order]
            short = name.removeprefix(f"{family.group}/") if family.group else name
            times = series.times[order].astype(np.int64)
            yield _Piece(family.group, short, name, steps, _repeats(steps), times, series.values[order])


def _arrays(facts: Facts) -> Iterable[_Piece]:
    for name, logged in facts.matrices.items():
        records = sorted(logged, key=lambda record: record.step or 0)
        steps = np.array([record.step or 0 for record in records])
        family = families([name])[0]
        times = np.array([record.time for record in records], np.int64)
        values = _stack([record.values for record in records])
        yield _Piece(family.group, family.short, name, steps, _repeats(steps), times, values)


def _stack(matrices: Sequence[Sequence[Sequence[int | float | str]]]) -> Floats:
    """Matrices along the last axis, columns first; ones of one row are vectors, shorter ones end in NaN."""
    rows = max(len(matrix) for matrix in matrices)
    columns = max((len(row) for matrix in matrices for row in matrix), default=0)
    out = np.full((columns, rows, len(matrices)), np.nan)
    for at, matrix in enumerate(matrices):
        for number, row in enumerate(matrix):
            out[: len(row), number, at] = [NONFINITE[value] if isinstance(value, str) else value for value in row]
    return out[:, 0] if rows == 1 else out


def _repeats(ordered: Steps) -> Ints:
    places = np.arange(len(ordered))
    begins = np.append(True, ordered[1:] != ordered[:-1])
    repeats: Ints = places - np.maximum.accumulate(np.where(begins, places, 0))
    return repeats


# -- one dataset -------------------------------------------------------------------------------------------------------


def _dataset(pieces: Sequence[_Piece]) -> xr.Dataset:
    steps, times, places = _draws(pieces)
    variables: dict[str, Any] = {}
    for piece, place in zip(pieces, places, strict=True):
        values = np.full((*piece.values.shape[:-1], len(steps)), np.nan)
        values[..., place] = piece.values
        dims, values = _dims(values, variables)
        variables[_variable(piece.name, variables)] = (dims, values, {"name": piece.full})
    coordinates = {
        "draw": np.arange(len(steps)),
        "step": ("draw", steps),
        "time": ("draw", times.astype("datetime64[ns]")),
    }
    return xr.Dataset(variables, coords=coordinates)


def _draws(pieces: Sequence[_Piece]) -> tuple[Steps, Ints, list[Ints]]:
    """The step and the time of every draw, and the draws of each piece's values."""
    steps = np.unique(np.concatenate([piece.steps for piece in pieces]))
    most = 1 + max(int(piece.repeats.max()) for piece in pieces)
    keys = [np.searchsorted(steps, piece.steps) * most + piece.repeats for piece in pieces]
    draws = np.unique(np.concatenate(keys))
    places = [np.searchsorted(draws, key) for key in keys]
    times = np.full(len(draws), np.iinfo(np.int64).max)
    for piece, place in zip(pieces, places, strict=True):
        times[place] = np.minimum(times[place], piece.times)
    return steps[draws // most], times, places


def _dims(values: Floats, others: Mapping[str, Any]) -> tuple[tuple[str, ...], Floats]:
    """The dimensions of an array; one whose vectors have another length than those before has its own."""
    if values.ndim == 1:
        return ("draw",), values
    sizes = {dim: size for dims, one, _ in others.values() for dim, size in zip(dims, one.shape, strict=True)}
    dims = []
    for dim, size in zip(("chain", "leapfrog"), values.shape[:-1], strict=False):
        free = (f"{dim}_{number}" if number > 1 else dim for number in range(1, 1 << 20))
        dims.append(next(name for name in free if sizes.get(name, size) == size))
    return (*dims, "draw"), values


def _variable(name: str, taken: Mapping[str, Any]) -> str:
    """A name as a variable: letters, digits and underscores, and no other one's."""
    safe = "".join(char if char.isalnum() or char == "_" else "_" for char in name) or "_"
    safe = safe.encode("utf-8", "ignore").decode()
    safe = f"{safe}_value" if safe in TAKEN else f"_{safe}" if safe[0].isdigit() else safe
    free, number = safe, 1
    while free in taken:
        number += 1
        free = f"{safe}_{number}"
    return free
