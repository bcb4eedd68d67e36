"""Recorded spans as trees of groups, without a tracer."""

from __future__ import annotations

from math import inf

import pytest

from chiplog.frontends.tunix.perf.span import SpanGroup
from chiplog.frontends.tunix.perf.span_tree import Forest
from chiplog.store.spans.span import Span

MAIN = "thread-MainThread"
STEP = Span(1, 0, "step", "MainThread", 0, 10)
SPANS = [
    STEP,
    Span(2, 1, "rollout", "MainThread", 1, 3),
    Span(3, 2, "rollout", "tpu0", 1, 5, kind="device"),
    Span(4, 2, "rollout", "tpu0", 4, 6, kind="device"),
    Span(5, 0, "load", "worker", 2, 2),
]


def forest(*spans: Span, groups: set[int]) -> Forest:
    return Forest(spans, groups, MAIN, 0.0, float)


def contents(group: SpanGroup) -> list[tuple[str, float, float]]:
    return [(one.name, one.begin, one.end) for one in group.inner]


def test_every_timeline_has_an_id() -> None:
    """The main thread comes first, threads have a prefix, devices do not."""
    assert forest(*SPANS, groups={1}).timelines() == [MAIN, "tpu0", "thread-worker"]
    assert forest(groups=set()).timelines() == [MAIN]


@pytest.mark.parametrize(
    ("timeline", "inside"),
    [
        (MAIN, [("rollout", 1, 4)]),
        ("tpu0", [("rollout", 1, 6), ("rollout", 6, 10)]),
        ("thread-worker", [("load", 2, 4)]),
    ],
    ids=["main", "device", "worker"],
)
def test_the_groups_of_the_main_thread_are_on_all_timelines(
    timeline: str, inside: list[tuple[str, float, float]]
) -> None:
    """Each with the spans of that timeline; those of a device follow one another."""
    (step,) = forest(*SPANS, groups={1}).tree(timeline).find_all_inner_groups("step")
    assert contents(step) == inside


def test_a_group_that_is_open_lasts_forever() -> None:
    """Its duration is negative in the record, and its end infinite in the tree."""
    root = forest(Span(1, 0, "step", "MainThread", 3, -1), groups={1}).tree(MAIN)
    assert contents(root) == [("step", 3, inf)] and root.end == inf
