"""Allocator reports."""

from __future__ import annotations

import pytest

from chiplog.frontends.surogate.allocator import report
from chiplog.frontends.surogate.safe_calls import Unusable


def test_kinds_of_every_segment() -> None:
    """A missing kind is 0, and a segment without any kind is left out."""
    segments = {"weights": {"device": 4, "pinned": "2"}, "stack": {"size": 1}}
    assert report(segments) == {
        "stats": [{"name": "weights", "device": 4, "managed": 0, "pinned": 2, "pageable": 0}],
    }


def test_mistakes_are_reported() -> None:
    """A value that is not a number is null; a list without a usable segment is refused."""
    sentences: list[str] = []
    stats = report({"weights": {"device": "many"}, "bad": 5}, lambda _, sentence: sentences.append(sentence))  # type: ignore[dict-item]
    assert stats["stats"][0]["device"] is None
    assert sentences == [
        "device of 'weights' is 'many', not a number; it is logged as null",
        "the segment 'bad' is 5, not bytes by device, managed, pinned, pageable; the others are logged",
    ]
    with pytest.raises(Unusable, match="nothing is logged"):
        report([5])  # type: ignore[list-item]
