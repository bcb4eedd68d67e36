"""Rows and tables in pieces that fit in a line of the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from chiplog.core.records import Plain, Row
from chiplog.core.values import convert
from chiplog.core.values.redact import hide

WIDEST = 5000  # metrics per record; a wider row becomes several records of the same step
TABLE_BYTES = 1 << 20  # approximate size of a table's record


def pieces(row: Row) -> Iterator[Row]:
    """A row in pieces that fit in a line."""
    if len(row) <= WIDEST:
        yield row
        return
    items = iter(row.items())
    while piece := dict(islice(items, WIDEST)):
        yield piece


def batches(table: object) -> Iterator[list[Plain]]:
    """The rows of a table (a mapping, mappings, a data frame) as plain data, in batches that fit in a line."""
    batch: list[Plain] = []
    size = 0
    for row in _rows(table):
        plain = hide(convert.plain(row if isinstance(row, Mapping) else {"value": row}))
        batch.append(plain)
        size += len(msgspec.json.encode(plain))
        if size > TABLE_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def is_frame(value: object) -> bool:
    """Whether a value is a data frame: of pandas, polars or pyarrow."""
    kind = type(value)
    return (hasattr(kind, "columns") and (hasattr(kind, "to_dicts") or hasattr(kind, "iterrows"))) or (
        hasattr(kind, "to_pylist") and hasattr(kind, "column_names")
    )


def _rows(table: Any) -> Iterable[object]:
    if isinstance(table, Mapping):
        return [table]
    if hasattr(table, "to_pylist") and hasattr(table, "column_names"):  # pyarrow
        listed: Iterable[object] = table.to_pylist()
        return listed
    if hasattr(table, "to_dicts"):  # polars
        rows: Iterable[object] = table.to_dicts()
        return rows
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # pandas
        rows = table.to_dict("records")
        return rows
    if not isinstance(table, Iterable):
        raise TypeError(f"rows are mappings or a data frame, not {convert.text(table)[:60]}")
    return table
