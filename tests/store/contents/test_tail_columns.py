"""Points and spans in columns."""

from __future__ import annotations

from chiplog.core.records import SpansRecord, Step
from chiplog.store.contents.tail_columns import TailColumns


def test_points_and_spans_are_collected() -> None:
    """A record of spans that is inconsistent has none."""
    collected = TailColumns()
    collected.add(Step(0, 0, 3, {"loss": 1.5}))
    collected.add(SpansRecord(1, 1, ["x"], ["main"], [0], [0], [1], [0], [5], [5], [None]))
    collected.add(SpansRecord(2, 2, ["x"], ["main"], [7], [0], [1], [0], [5], [5], [None]))
    assert list(collected.points.last()) == [("loss", 0, 1.5)] and len(collected.spans) == 1
