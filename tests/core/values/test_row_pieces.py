"""Rows and tables in pieces that fit in a line."""

from __future__ import annotations

from chiplog.core.values.row_pieces import TABLE_BYTES, WIDEST, batches, pieces


def test_a_narrow_row_stays_the_same_object() -> None:
    """Nothing is copied."""
    row = {"a": 1}
    assert next(pieces(row)) is row


def test_a_wide_row_is_cut_in_order() -> None:
    """The pieces together are the row."""
    row = {f"m{at}": at for at in range(2 * WIDEST + 1)}
    parts = list(pieces(row))
    assert [len(part) for part in parts] == [WIDEST, WIDEST, 1]
    assert [name for part in parts for name in part] == list(row)


def test_a_table_is_one_mapping_many_or_plain_values() -> None:
    """A value that is not a mapping has the column `value`."""
    assert list(batches({"a": 1})) == [[{"a": 1}]]
    assert list(batches([{"a": 1}, 2])) == [[{"a": 1}, {"value": 2}]]
    assert list(batches([])) == []


def test_a_large_table_is_several_batches() -> None:
    """Each is about as large as a line may be."""
    rows = [{"text": "x" * (TABLE_BYTES // 2)} for _ in range(5)]
    assert [len(batch) for batch in batches(rows)] == [2, 2, 1]
