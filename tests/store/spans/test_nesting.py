"""Which spans lie in which."""

from __future__ import annotations

import pytest

from chiplog.store.spans.span import StoredSpan
from tests.store.spans.building import spans_of


@pytest.mark.parametrize("base", [0, 2**61, -(2**62)])
def test_parents_are_found_whatever_the_ids_are(base: int) -> None:
    """Also where ids do not count from one."""
    spans = spans_of(
        [
            StoredSpan(base + 1, 0, "step", "main", 0, 100),
            StoredSpan(base + 2, base + 1, "a", "main", 10, 20),
            StoredSpan(base + 3, base + 2, "b", "main", 12, 5),
            StoredSpan(base + 3, base + 2, "c", "main", 12, 5, rank=1),
        ]
    )
    assert [span.name for span in spans.named("step").inside()] == ["a", "b"]
    assert [span.name for span in spans.named("b", "c").parents()] == ["a"]
    assert spans.named("step").own() == 80e-9 and spans.named("c").own() == 5e-9


def test_children_that_cross_count_once() -> None:
    """The own time of a span is what none of them covers."""
    spans = spans_of(
        [
            StoredSpan(1, 0, "step", "main", 0, 100),
            StoredSpan(2, 1, "a", "main", 10, 40),
            StoredSpan(3, 1, "b", "main", 30, 40),
            StoredSpan(4, 1, "late", "main", 90, 50),
            StoredSpan(5, 1, "beside", "tpu0", 0, 100, kind="device"),
        ]
    )
    assert spans.named("step").own() == 30e-9


def test_spans_that_lie_in_each_other_are_each_found_once() -> None:
    """What cannot be, in a damaged run, comes to an end."""
    spans = spans_of(
        [StoredSpan(1, 2, "a", "main", 0, 10), StoredSpan(2, 1, "b", "main", 1, 5), StoredSpan(3, 3, "c", "main", 2, 5)]
    )
    assert [span.name for span in spans.named("a").inside()] == ["a", "b"]
    assert [span.name for span in spans.named("c").inside()] == ["c"]
