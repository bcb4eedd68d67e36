"""The points of a run as tables of other libraries."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chiplog.store import arrow
from chiplog.store.points.columns import Column, Floats, Steps
from chiplog.store.points.run_points import RunPoints
from chiplog.store.points.stream_points import StreamPoints

if TYPE_CHECKING:
    import pandas
    import polars
    import xarray

STEP = "step"
_NO_POINTS = pa.schema(
    [
        ("name", pa.string()),
        ("step", pa.int64()),
        ("time", pa.timestamp("ns", "UTC")),
        ("value", pa.float64()),
        ("exact", pa.string()),
        ("rank", pa.int32()),
        ("attempt", pa.int32()),
    ]
)


def to_arrow(points: RunPoints) -> pa.Table:
    """All points of the default view, in one table."""
    return pa.concat_tables(tables(points))


def tables(points: RunPoints) -> Iterator[pa.Table]:
    """All points of the default view, a series of one rank and attempt at a time; at least one table."""
    # One fractional step makes all of them doubles.
    kinds = {column.steps.dtype for _, _, column in _columns(points)}
    doubles = bool(kinds - {np.dtype(np.int64)})
    for name, stream, column in _columns(points):
        yield _table(name, stream, column._replace(steps=column.steps.astype(np.float64)) if doubles else column)
    if not kinds:
        yield _NO_POINTS.empty_table()


def _columns(points: RunPoints) -> Iterator[tuple[str, StreamPoints, Column]]:
    for name in points.names():
        for rank in points.ranks():
            for stream, column in points.view(name, rank):
                if len(column.seqs):
                    yield name, stream, column


def to_pandas(points: RunPoints) -> pandas.DataFrame:
    """A data frame indexed by step, with a column per series."""
    import pandas as pd

    columns = {name: _last_by_step(points, name) for name in points.names()}
    if STEP in columns:
        steps, values = columns.pop(STEP)
        if not np.array_equal(steps, values):  # otherwise the index holds the same
            columns[_free_name(columns)] = steps, values
    series = {name: pd.Series(values, index=steps) for name, (steps, values) in columns.items()}
    frame = pd.DataFrame(series).sort_index() if series else pd.DataFrame()
    return frame.rename_axis(STEP)


def to_polars(points: RunPoints) -> polars.DataFrame:
    """Like `to_pandas`, with the step as the first column."""
    import polars as pl

    frame = to_pandas(points)
    return pl.DataFrame({STEP: frame.index.to_numpy(), **{name: frame[name].to_numpy() for name in frame.columns}})


def to_xarray(points: RunPoints) -> xarray.Dataset:
    """A dataset with a variable per series along `step`."""
    import xarray as xr

    frame = to_pandas(points)
    variables = {name: (STEP, frame[name].to_numpy()) for name in frame.columns}
    return xr.Dataset(variables, coords={STEP: frame.index.to_numpy()})


def _last_by_step(points: RunPoints, name: str) -> tuple[Steps, Floats]:
    """The last value of a series at each step, on the first rank that has it."""
    column = points.column(name)
    order = np.argsort(column.steps, kind="stable")
    steps, values = column.steps[order], column.values[order]
    last = np.append(steps[1:] != steps[:-1], True) if len(steps) else np.empty(0, bool)
    return steps[last], values[last]


def _free_name(taken: Collection[str]) -> str:
    """The column name of a metric called `step`, in a table whose steps have that name."""
    name = f"{STEP}/value"
    while name in taken:
        name += "/value"
    return name


def _table(name: str, stream: StreamPoints, column: Column) -> pa.Table:
    count = len(column.seqs)
    return pa.table(
        {
            "name": pa.repeat(pa.scalar(name), count),
            "step": column.steps,
            "time": pa.array(stream.times(column.seqs), pa.timestamp("ns", "UTC")),
            "value": column.values,
            "exact": arrow.sparse_texts(column.exact, count),
            "rank": pa.repeat(pa.scalar(stream.rank, pa.int32()), count),
            "attempt": pa.repeat(pa.scalar(stream.attempt, pa.int32()), count),
        }
    )
