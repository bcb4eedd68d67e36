"""Spans as an Arrow table, and back."""

from __future__ import annotations

import pyarrow as pa

from chiplog.store.spans import arrow
from chiplog.store.spans.columns import SpanColumns
from chiplog.store.spans.span import StoredSpan
from chiplog.store.spans.spans import Spans
from tests.store.spans.building import spans_of


def read(table: pa.Table) -> Spans:
    columns = SpanColumns()
    columns.append(arrow.from_table(table), 0, 0)
    return Spans(columns)


SPANS = [
    StoredSpan(1, 0, "step", "main", 5, 10, 2.0, {"micro": 1}),
    StoredSpan(2, 1, "work", "tpu0", 6, 3, None, {}, True, kind="device", error="OSError"),
    StoredSpan(3, 1, "work", "main", 2, 3, 2.5),
]


def test_a_table_says_all_of_the_spans() -> None:
    """By their start, with nothing where there is nothing to say."""
    table = spans_of(SPANS).to_arrow()
    assert table.schema.names == [*arrow.SCHEMA.names, "rank", "attempt"]
    assert table["id"].to_pylist() == [3, 1, 2] and table["step"].to_pylist() == [2.5, 2.0, None]
    assert table["tags"].to_pylist() == [None, '{"micro":1}', None] and table["error"].to_pylist()[2] == "OSError"
    assert table["kind"].to_pylist() == [None, None, "device"] and read(table) == sorted(SPANS, key=lambda s: s.start)


def test_older_tables_have_no_kinds_and_no_errors() -> None:
    """They are read as spans of threads."""
    table = spans_of(SPANS).to_arrow().drop_columns(["kind", "error"])
    assert {(span.kind, span.error) for span in read(table)} == {("", "")} and len(read(table)) == 3


def test_a_table_of_none_is_a_table() -> None:
    """With all its columns."""
    assert arrow.to_table(SpanColumns()).schema == arrow.SCHEMA and not read(arrow.SCHEMA.empty_table())
