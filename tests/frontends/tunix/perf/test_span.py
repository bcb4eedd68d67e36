"""Trees of spans of the first version, and how they are merged."""

from __future__ import annotations

import pytest

from chiplog.frontends.tunix.perf.span import Span as OldSpan
from chiplog.frontends.tunix.perf.span import SpanGroup, merge_span_group_trees


def tree(*children: tuple[str, float, float], name: str = "global_step") -> SpanGroup:
    """A step with a group `mini` in it, and spans in that."""
    root = SpanGroup(name, begin=0.0, end=10.0)
    mini = SpanGroup("mini", root, 1.0, 9.0)
    mini.inner += [OldSpan(*child) for child in children]
    return root


def test_trees_of_two_threads_become_one() -> None:
    """What both have is there once, in order; the trees themselves stay as they are."""
    first, second = tree(("a", 1.0, 2.0), ("c", 5.0, 6.0)), tree(("a", 1.0, 2.0 + 1e-12), ("b", 3.0, 5.0))
    before = first.picture(), second.picture()
    merged = merge_span_group_trees(first, second)
    assert isinstance(merged, SpanGroup) and merged is not first
    assert merged.picture() == tree(("a", 1.0, 2.0), ("b", 3.0, 5.0), ("c", 5.0, 6.0)).picture()
    assert merged.inner[0].outer is merged  # type: ignore[attr-defined]
    assert (first.picture(), second.picture()) == before


def test_trees_that_do_not_fit_are_not_merged() -> None:
    """Other roots, or spans of both that overlap."""
    with pytest.raises(ValueError, match="Roots are not identical"):
        merge_span_group_trees(tree(), tree(name="other"))
    with pytest.raises(ValueError, match="Merge is not possible: Overlap detected"):
        merge_span_group_trees(tree(("a", 1.0, 3.0)), tree(("b", 2.0, 4.0)))
