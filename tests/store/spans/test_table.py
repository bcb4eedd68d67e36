"""Where the time of stored spans went, as a table."""

from __future__ import annotations

import pytest

from chiplog.store.spans.span import StoredSpan
from tests.store.spans.building import spans_of


def test_each_step_name_and_kind_has_a_row() -> None:
    """In the order in which they first come; those without a step together."""
    spans = spans_of(
        [
            StoredSpan(1, 0, "b", "main", 0, 10, 7),
            StoredSpan(2, 0, "a", "main", 20, 30, 7),
            StoredSpan(3, 0, "a", "tpu0", 25, 5, 7, kind="device"),
            StoredSpan(4, 0, "a", "main", 60, 10, 7),
            StoredSpan(5, 0, "a", "main", 80, 1, None),
            StoredSpan(6, 0, "a", "main", 90, 3, None),
        ]
    )
    rows = [(row.step, row.name, row.kind, row.count) for row in spans.table()]
    assert rows == [(7, "b", "", 1), (7, "a", "", 2), (7, "a", "device", 1), (None, "a", "", 2)]
    assert [(row.step, row.name, row.kind, row.count) for row in spans.table(by_step=False)] == [
        (None, "b", "", 1), (None, "a", "", 4), (None, "a", "device", 1)
    ]  # fmt: skip
    of_a = spans.table()[1]
    assert of_a.p50 == pytest.approx(20e-9) and of_a.longest == 30e-9 and of_a.total == of_a.own == 40e-9
