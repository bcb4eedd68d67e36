"""Span columns as an Arrow table, and back: the contents of `.spans.parquet` (docs/format.md)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from chiplog.store.arrow import booleans, doubles, ints
from chiplog.store.spans.columns import Array, Batch, Ints, SpanColumns, Tags

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("parent", pa.int64()),
        ("name", pa.string()),
        ("thread", pa.string()),
        ("start", pa.int64()),
        ("duration", pa.int64()),
        ("step", pa.float64()),
        ("tags", pa.string()),
        ("failed", pa.bool_()),
        ("kind", pa.string()),
        ("error", pa.string()),
    ]
)


def to_table(columns: SpanColumns, rows: Ints | None = None, *, with_stream: bool = False) -> pa.Table:
    """Spans by their start, all or those at some rows; optionally with rank and attempt."""
    rows = columns.by_start(rows)
    chosen = {name: columns.column(name)[rows] for name in ("id", "parent", "start", "duration", "failed")}
    steps, lane, stream = (columns.column(name)[rows] for name in ("step", "lane", "stream"))
    listed = rows.tolist()
    arrays = {
        **{name: pa.array(column) for name, column in chosen.items()},
        "name": _texts(list(columns.names), columns.column("name")[rows]),
        "thread": _texts([label for label, _ in columns.lanes], lane),
        "kind": _texts([kind or None for _, kind in columns.lanes], lane),
        "step": pa.array(steps, pa.float64(), mask=~np.isfinite(steps)),
        "tags": pa.array([_json(columns.tags.get(row)) for row in listed], pa.string()),
        "error": pa.array([columns.errors.get(row) or None for row in listed], pa.string()),
    }
    table = pa.table({name: arrays[name].cast(SCHEMA.field(name).type) for name in SCHEMA.names}, SCHEMA)
    if with_stream:
        for at, name in enumerate(("rank", "attempt")):
            of_stream = np.array([one[at] for one in columns.streams], np.int64)
            table = table.append_column(name, pa.array(of_stream[stream]))
    return table


def from_table(table: pa.Table) -> Batch:
    """The spans of a part's table."""
    arrays = {name: table.column(name).combine_chunks() for name in table.column_names}
    names, threads = arrays["name"].dictionary_encode(), arrays["thread"].dictionary_encode()
    labels, lane = threads.dictionary.to_pylist(), ints(threads.indices)
    lanes = [(label, "") for label in labels]
    if "kind" in arrays:  # older parts have none
        encoded = arrays["kind"].dictionary_encode()
        kinds = [*encoded.dictionary.to_pylist(), ""]
        pairs = lane * len(kinds) + ints(encoded.indices, missing=len(kinds) - 1)
        present, lane = np.unique(pairs, return_inverse=True)
        lanes = [(labels[pair // len(kinds)], kinds[pair % len(kinds)]) for pair in present.tolist()]
    steps = doubles(arrays["step"].cast("float64"), missing=np.nan)
    columns: dict[str, Array] = {
        **{name: ints(arrays[name]) for name in ("id", "parent", "start", "duration")},
        "name": ints(names.indices),
        "lane": lane,
        "step": steps,
        "whole_step": np.full(len(steps), pa.types.is_integer(arrays["step"].type)) & (steps == steps),
        "failed": booleans(arrays["failed"]),
    }
    tags, errors = (_texts_by_place(arrays[name]) if name in arrays else {} for name in ("tags", "error"))
    return Batch(columns, names.dictionary.to_pylist(), lanes, tags, errors)


def _texts(texts: Sequence[str | None], codes: Ints) -> pa.Array:
    """The texts that codes stand for."""
    return pa.array(texts, pa.string()).take(pa.array(codes, pa.int64()))


def _texts_by_place(column: pa.Array) -> dict[int, str]:
    places = np.flatnonzero(booleans(column.is_valid())).tolist()
    return {at: column[at].as_py() for at in places}


def _json(tags: Tags | str | None) -> str | None:
    if not tags:
        return None
    return tags if isinstance(tags, str) else msgspec.json.encode(tags).decode()
