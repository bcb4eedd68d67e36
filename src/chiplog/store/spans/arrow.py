"""Spans in columns as an Arrow table, and back: what `.spans.parquet` holds (docs/format.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from chiplog.store.arrow import numbers, truths
from chiplog.store.spans.columns import Array, Batch, Ints, SpanColumns

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
    """Spans, all or those at some rows, by their start; with rank and attempt where asked."""
    rows = columns.by_start(rows)
    chosen = {name: columns.column(name)[rows] for name in ("id", "parent", "start", "duration", "failed")}
    steps, lane, stream = (columns.column(name)[rows] for name in ("step", "lane", "stream"))
    listed = rows.tolist()
    found = {
        **{name: pa.array(column) for name, column in chosen.items()},
        "name": _texts(list(columns.names), columns.column("name")[rows]),
        "thread": _texts([label for label, _ in columns.lanes], lane),
        "kind": _texts([kind or None for _, kind in columns.lanes], lane),
        "step": pa.array(steps, pa.float64(), mask=~np.isfinite(steps)),
        "tags": pa.array([_json(columns.tags.get(row)) for row in listed], pa.string()),
        "error": pa.array([columns.errors.get(row) or None for row in listed], pa.string()),
    }
    table = pa.table({name: found[name].cast(SCHEMA.field(name).type) for name in SCHEMA.names}, SCHEMA)
    if with_stream:
        for at, name in enumerate(("rank", "attempt")):
            of_stream = np.array([one[at] for one in columns.streams], np.int64)
            table = table.append_column(name, pa.array(of_stream[stream]))
    return table


def from_table(table: pa.Table) -> Batch:
    """The batch that a table of a part is."""
    found = {name: table.column(name).combine_chunks() for name in table.column_names}
    names, threads = found["name"].dictionary_encode(), found["thread"].dictionary_encode()
    labels, lane = threads.dictionary.to_pylist(), numbers(threads.indices).astype(np.int64)
    lanes = [(label, "") for label in labels]
    if "kind" in found:  # older parts have none
        coded = found["kind"].dictionary_encode()
        kinds = [*coded.dictionary.to_pylist(), ""]
        pairs = lane * len(kinds) + numbers(coded.indices, missing=len(kinds) - 1)
        present, lane = np.unique(pairs, return_inverse=True)
        lanes = [(labels[pair // len(kinds)], kinds[pair % len(kinds)]) for pair in present.tolist()]
    steps = numbers(found["step"].cast("float64"), missing=np.nan)
    columns: dict[str, Array] = {
        **{name: numbers(found[name]) for name in ("id", "parent", "start", "duration")},
        "name": numbers(names.indices),
        "lane": lane,
        "step": steps,
        "whole_step": np.full(len(steps), pa.types.is_integer(found["step"].type)) & (steps == steps),
        "failed": truths(found["failed"]),
    }
    tags, errors = (_texts_by_place(found[name]) if name in found else {} for name in ("tags", "error"))
    return Batch(columns, names.dictionary.to_pylist(), lanes, tags, errors)


def _texts(texts: Sequence[str | None], codes: Ints) -> pa.Array:
    """The texts that codes stand for."""
    return pa.array(texts, pa.string()).take(pa.array(codes, pa.int64()))


def _texts_by_place(column: pa.Array) -> dict[int, str]:
    places = np.flatnonzero(truths(column.is_valid())).tolist()
    return {at: column[at].as_py() for at in places}


def _json(tags: dict[str, Any] | str | None) -> str | None:
    if not tags:
        return None
    return tags if isinstance(tags, str) else msgspec.json.encode(tags).decode()
