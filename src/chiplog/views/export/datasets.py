"""A run as datasets: one per group of metrics (`metric_groups.py`), with the steps and times of its values.

A dataset has its own dimension `draw`: one for every step at which something of its group was logged, and one more for
each time a name was logged again at the same step. A metric that starts late, or is logged rarely, is NaN at the other
draws. Vectors have a dimension `chain`, matrices `chain` and `leapfrog` (their columns and rows).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import xarray as xr

from chiplog.core import messages
from chiplog.core.errors import BadSetting, MissingPackage
from chiplog.core.files.writing import make_place, replacing
from chiplog.store.contents.contents import LOGGED, Contents
from chiplog.store.contents.matrices import stack, together
from chiplog.store.contents.ragged import is_ragged
from chiplog.store.points.columns import Floats, Ints, Steps, repeats
from chiplog.store.points.shared_steps import increases, places, same, union
from chiplog.store.reader import Stored
from chiplog.views.metric_families import Family, filename, group_of
from chiplog.views.metric_groups import assign, recorded
from chiplog.views.steps_across_epochs import ByCall
from chiplog.views.without_warmup import dropped

if TYPE_CHECKING:
    import pandas as pd

Variables: TypeAlias = dict[str, tuple[tuple[str, ...], Floats, dict[str, str]]]  # dimensions, values, attributes

CELLS = 1 << 24  # of a dataset, which may be empty
UNGROUPED = "dataset"  # the file of names without a group
TAKEN = ("draw", "chain", "leapfrog", "step", "time")  # dimensions and coordinates


def datasets(
    stored: Stored, *, warmup: int | float = 0, contents: Contents | None = None, events: bool = False
) -> dict[str, xr.Dataset]:
    """The dataset of every group of metrics by name, `""` for metrics without a group.

    `warmup` discards the first draws: a fraction as a float, a count as an int. `events` adds data that was not logged
    as metrics: GPUs and other events, stopwatches, and data about the ranks.
    """
    contents = contents or stored.contents(*LOGGED)
    logged, beside = recorded(stored, contents)
    pieces = [piece for piece in (*_numbers(stored, logged), *_arrays(contents)) if not _is_its_step(piece)]
    aside = list(_numbers(stored, beside)) if events else []
    own = {group_of(piece.metric) for piece in aside}
    steps: dict[str, Steps] = {}
    for piece in pieces:
        if group_of(piece.metric) not in own:
            steps.setdefault(piece.metric, piece.steps)
    homes = assign(steps, stored.calls.apart if isinstance(stored, ByCall) else ())
    groups: dict[str, list[_Piece]] = {}
    for piece in [*pieces, *aside]:
        groups.setdefault(homes.get(piece.metric, group_of(piece.metric)), []).append(piece)
    by_group = {group: _dataset(group, members) for group, members in groups.items()}
    if isinstance(stored, ByCall):
        by_group = {
            group: one.assign_coords(step=("draw", stored.steps_at(one["step"].to_numpy())))
            for group, one in by_group.items()
        }
    return {group: one.isel(draw=slice(dropped(warmup, one.sizes["draw"]), None)) for group, one in by_group.items()}


def write(by_group: Mapping[str, xr.Dataset], folder: Path, format: str = "h5") -> list[Path]:
    """Write each dataset to `<group>.<format>`, replacing the file, so that writing twice gives the same files."""
    if format not in WRITERS:
        raise BadSetting(f"unknown dataset format {format!r}; available: {', '.join(WRITERS)}")
    make_place(folder)
    written: list[Path] = []
    for group, one in by_group.items():
        path = folder / f"{filename(group or UNGROUPED, (path.stem for path in written))}.{format}"
        with replacing(path) as temporary:
            WRITERS[format](one, temporary)
        written.append(path)
    return written


# -- files -------------------------------------------------------------------------------------------------------------


def _to_hdf5(one: xr.Dataset, path: Path) -> None:
    try:
        from chiplog.views.export import hdf5
    except ImportError as error:
        raise MissingPackage(f"HDF5 and NetCDF need the {error.name!r} package: pip install 'chiplog[data]'") from None
    hdf5.write(one, path)


def _to_parquet(one: xr.Dataset, path: Path) -> None:
    _flat(one).to_parquet(path)


def _to_csv(one: xr.Dataset, path: Path) -> None:
    _flat(one).to_csv(path, index=False, date_format="%Y-%m-%dT%H:%M:%S.%fZ")


def _flat(one: xr.Dataset) -> pd.DataFrame:
    """A data frame of the metrics with one value per draw, named as logged; without arrays."""
    scalars = [name for name, values in one.data_vars.items() if values.dims == ("draw",)]
    frame = one[scalars].to_dataframe().reset_index(drop=True)
    names = {name: one[name].attrs["name"] for name in scalars}
    names = {name: f"{full}/value" if full in TAKEN else full for name, full in names.items()}
    return frame[["step", "time", *scalars]].rename(columns=names)


WRITERS: dict[str, Callable[[xr.Dataset, Path], None]] = {
    "h5": _to_hdf5,
    "nc": _to_hdf5,
    "parquet": _to_parquet,
    "csv": _to_csv,
}


# -- from the run ------------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """The data of one variable: its values by step, with the draw as the last dimension."""

    metric: str
    name: str  # of the metric, or of one of its statistics
    steps: Steps
    repeats: Ints  # how many values of the same step precede each
    times: Ints
    values: Floats


def _numbers(stored: Stored, chosen: Iterable[Family]) -> Iterable[_Piece]:
    before: _Piece | None = None
    for family in chosen:
        for name in (family.name, *family.statistics.values()):
            series = stored.series(name, missing_ok=True)
            if not len(series):  # a newer launch hides it
                continue
            steps, times, values = series.steps, series.times.astype(np.int64), series.values
            if not increases(steps):
                order = np.argsort(steps, kind="stable")
                steps, times, values = steps[order], times[order], values[order]
            if before is not None and (shared := same(before.steps, steps)) is before.steps:
                before = _Piece(family.name, name, shared, before.repeats, same(before.times, times), values)
            else:
                before = _Piece(family.name, name, steps, repeats(steps), times, values)
            yield before


def _arrays(contents: Contents) -> Iterable[_Piece]:
    for name, logged in contents.matrices.items():
        frames = together(sorted(logged, key=lambda frame: frame.step or 0))
        if len(frames) < len(logged):
            left = f"{len(logged) - len(frames):,} of {len(logged):,} matrices {name[:60]!r}"
            messages.once(f"larger {name[:60]}", f"{left} are much larger than the others, and not in the datasets")
        steps = np.array([frame.step or 0 for frame in frames])
        times = np.array([frame.time for frame in frames], np.int64)
        values = stack(frames)
        values = values[:, 0] if values.shape[1] == 1 else values  # one row is a vector
        yield _Piece(name, name, steps, repeats(steps), times, values)


# -- one dataset -------------------------------------------------------------------------------------------------------


def _dataset(group: str, pieces: Sequence[_Piece]) -> xr.Dataset:
    # Names with the group come first: `loss` is `train/loss` even if there is another `loss`.
    pieces = sorted(pieces, key=lambda piece: group_of(piece.name) != group)
    steps, times, rows = _draws(pieces)
    variables: Variables = {}
    kept = _worth_their_cells(group, pieces, len(steps))
    for piece, row in zip(pieces, rows, strict=True):
        if id(piece) not in kept:
            continue
        values = piece.values
        if values.shape[-1] < len(steps):
            values = np.full((*piece.values.shape[:-1], len(steps)), np.nan)
            values[..., row] = piece.values
        dims, values = _dims(values, variables)
        short = piece.name.removeprefix(f"{group}/") if group else piece.name
        variables[_variable(short, variables)] = (dims, values, {"name": piece.name})
    coordinates = {
        "draw": np.arange(len(steps)),
        "step": ("draw", steps),
        "time": ("draw", times.astype("datetime64[ns]")),
    }
    return xr.Dataset(variables, coords=coordinates)


def _worth_their_cells(group: str, pieces: Sequence[_Piece], draws: int) -> set[int]:
    """The pieces (by `id`) that are in a dataset: if it were too large, not those with few values for their cells."""
    kept: set[int] = set()
    cells = values = 0
    for piece in sorted(pieces, key=lambda piece: -len(piece.steps)):
        own = piece.values.size // max(1, len(piece.steps)) * draws
        if not is_ragged(cells + own, values + piece.values.size, always=CELLS):
            kept.add(id(piece))
            cells, values = cells + own, values + piece.values.size
    if left := len(pieces) - len(kept):
        where = f"the dataset {(group or UNGROUPED)!r}: they have few values for its {draws:,} draws"
        messages.once(
            f"left out {group}", f"{left:,} of {len(pieces):,} names are not in {where}; Parquet has them all"
        )
    return kept


def _is_its_step(piece: _Piece) -> bool:
    """Whether this metric only repeats the step, which is a coordinate already."""
    return piece.name.rpartition("/")[2] == "step" and np.array_equal(piece.values, piece.steps)


def _draws(pieces: Sequence[_Piece]) -> tuple[Steps, Ints, list[Ints]]:
    """The step and time of every draw, and the draws of each piece's values."""
    steps = union(piece.steps for piece in pieces)
    most = 1 + max(int(piece.repeats.max()) for piece in pieces)
    keys: list[Ints] = []
    for piece in pieces:
        key = places(steps, piece.steps) * most + piece.repeats
        keys.append(same(keys[-1] if keys else None, key))
    draws = union(keys)
    rows: list[Ints] = []
    times = np.full(len(draws), np.iinfo(np.int64).max)
    for piece, key in zip(pieces, keys, strict=True):
        rows.append(same(rows[-1] if rows else None, places(draws, key)))
        times[rows[-1]] = np.minimum(times[rows[-1]], piece.times)
    return steps[draws // most], times, rows


def _dims(values: Floats, others: Variables) -> tuple[tuple[str, ...], Floats]:
    """The dimensions of an array; vectors of a new length get their own dimension."""
    if values.ndim == 1:
        return ("draw",), values
    sizes = {dim: size for dims, one, _ in others.values() for dim, size in zip(dims, one.shape, strict=True)}
    dims = []
    for dim, size in zip(("chain", "leapfrog"), values.shape[:-1], strict=False):
        free = (f"{dim}_{number}" if number > 1 else dim for number in range(1, 1 << 20))
        dims.append(next(name for name in free if sizes.get(name, size) == size))
    return (*dims, "draw"), values


def _variable(name: str, taken: Collection[str]) -> str:
    """A unique variable name: letters, digits and underscores."""
    safe = "".join(char if char.isalnum() or char == "_" else "_" for char in name) or "_"
    safe = safe.encode("utf-8", "ignore").decode()
    safe = f"{safe}_value" if safe in TAKEN else f"_{safe}" if safe[0].isdigit() else safe
    free, number = safe, 1
    while free in taken:
        number += 1
        free = f"{safe}_{number}"
    return free
