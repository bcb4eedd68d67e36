"""Spans in columns, as they are read."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from chiplog.core import records
from chiplog.store.spans.columns import SpanColumns, from_record
from chiplog.store.spans.span import expand
from tests.store.spans.building import scattered


def columns_of(*batches: tuple[records.SpansRecord, int, int]) -> SpanColumns:
    columns = SpanColumns()
    for record, rank, attempt in batches:
        batch = from_record(record)
        assert batch is not None
        columns.append(batch, rank, attempt)
    return columns


def test_columns_give_back_what_was_appended() -> None:
    """Batch after batch, each with names and timelines of its own."""
    batches = scattered(3)
    columns = columns_of(*batches)
    assert list(columns.objects(np.arange(columns.rows))) == [span for one in batches for span in expand(*one)]


@pytest.mark.parametrize("wrong", [{"name": [99]}, {"thread": [-1]}, {"step": []}, {"id": [2**70]}, {"start": [2**64]}])
def test_records_that_cannot_be_are_left_out(wrong: dict[str, Any]) -> None:
    """Those that contradict themselves, and those with times or ids of more than 64 bits."""
    record = scattered(1)[0][0]
    wrong = {name: column * len(record.id) for name, column in wrong.items()}
    assert from_record(msgspec.structs.replace(record, **wrong)) is None


def test_steps_are_as_they_were_logged() -> None:
    """Whole ones beyond what a float holds too; in their column they are the nearest float."""
    steps = [2**60 + 1, 10**400, -(10**400), 2.5, 3, None]
    count = range(len(steps))
    record = records.SpansRecord(
        0, 0, ["a"], ["main"], [0 for _ in count], [0 for _ in count], [n + 1 for n in count], [0 for _ in count],
        list(count), [1 for _ in count], steps,
    )  # fmt: skip
    columns = columns_of((record, 0, 0))
    assert columns.steps(np.arange(6)) == steps
    assert columns.column("step")[:5].tolist() == [2.0**60, np.inf, -np.inf, 2.5, 3]


def test_a_batch_without_spans_adds_nothing() -> None:
    """No names, no timelines, no rows."""
    columns = columns_of((records.SpansRecord(0, 0, [], [], [], [], [], [], [], [], []), 0, 0))
    assert columns.rows == 0 and not columns.streams and len(columns.by_start()) == 0
