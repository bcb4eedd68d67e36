"""One span, and those of a record."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from chiplog.store.spans.span import StoredSpan, expand
from tests.store.spans.building import scattered


def test_a_span_knows_its_end_and_where_it_lies() -> None:
    """Ids are those of a rank and attempt."""
    span = StoredSpan(3, 2, "forward", "tpu0", 10, 2_000_000_000, rank=1, attempt=2)
    assert span.end == 2_000_000_010 and span.seconds == 2
    assert (span.key, span.parent_key, span.timeline) == ((1, 2, 3), (1, 2, 2), (1, 2, "tpu0"))


@pytest.mark.parametrize("wrong", [{"name": [99]}, {"thread": [-1]}, {"step": []}])
def test_a_record_that_contradicts_itself_has_no_spans(wrong: dict[str, Any]) -> None:
    """Whole records are taken, or nothing of them."""
    record = scattered(1)[0][0]
    size = len(record.id)
    assert len(list(expand(record, 0, 0))) == size > 0
    wrong = {name: column * size for name, column in wrong.items()}
    assert list(expand(msgspec.structs.replace(record, **wrong), 0, 0)) == []
