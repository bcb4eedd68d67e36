"""Where the time went: tables, the critical path, and changes."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from chiplog.store.spans.spans import Spans
from chiplog.views.trace import flame, summary
from tests.store.spans.building import spans_of
from tests.support.spans import STEP, span


def test_the_table_is_by_own_time_with_devices_last() -> None:
    """Shares are of the whole time; idle, wait and overlap stand below."""
    lines = summary.where(STEP).splitlines()
    assert lines[0].split() == ["span", "on", "count", "total", "own", "share", "p50", "p95", "longest"]
    assert lines[1].split() == ["sync", "host", "1", "6s", "5.5s", "55.0%", "6s", "6s", "6s"]
    assert [line.split()[1] for line in lines[1:9]] == ["host"] * 5 + ["device", "device", "queue"]
    assert "gpu0 idle 0ns" in "\n".join(lines) and "waited 3.5s" in "\n".join(lines)


def test_ranks_are_told_apart() -> None:
    """A share is of the time of all ranks together, a change a rank, and the critical path says whose it is."""
    one = spans_of([span(1, "a", 0, 4, step=1)])
    two = spans_of([span(1, "a", 0, 4, step=1, rank=0), span(1, "a", 4, 8, step=1, rank=1)])
    assert summary.where(two).splitlines()[1].split()[5] == "50.0%"
    assert summary.changes(two, one)[0].more == 0
    assert [line.split()[1:4] for line in summary.path(two).splitlines()[1:]] == [
        ["rank", "0", "main"],
        ["rank", "1", "main"],
    ]


def test_failures_are_named() -> None:
    """With how often."""
    failed = [span(n, "load", n, n + 1, failed=True, error="OSError") for n in range(3)]
    assert "failed: 3× load (OSError)" in summary.where(spans_of(failed))
    assert "no spans" in summary.where(spans_of([]))


def test_texts_of_failures_steer_no_terminal() -> None:
    """Whoever made the run chose its names and errors."""
    failed = [span(1, "lo\x1b[2Jad", 1, 2, failed=True, error="\x9b31m\u202e")]
    assert summary.where(spans_of(failed)).replace("\n", "").isprintable()


def test_the_critical_path_goes_over_the_device_the_host_waited_for() -> None:
    """data, then the device's forward and backward, then what was left of the step."""
    legs = summary.critical_path(STEP)
    said = [(leg.span.name, leg.span.kind) if leg.span else None for leg in legs]
    assert said == [("data", ""), ("forward", ""), ("forward", "device"), ("backward", "device"), ("step", "")]
    assert sum(leg.seconds for leg in legs) == pytest.approx(10)
    assert all(one.end == other.begin for one, other in pairwise(legs))
    assert "backward  gpu0" in summary.path(STEP) and summary.critical_path(spans_of([])) == []


def test_time_in_which_nobody_worked_is_on_the_path() -> None:
    """A gap between spans is a leg of its own."""
    legs = summary.critical_path(spans_of([span(1, "a", 0, 1), span(2, "b", 3, 4)]))
    assert [(leg.span.name if leg.span else None, leg.seconds) for leg in legs] == [("a", 1), (None, 2), ("b", 1)]


def test_the_biggest_change_comes_first() -> None:
    """Own seconds a step, against a run with other numbers of steps."""
    here = spans_of([span(n, "a", n, n + 0.5, step=n) for n in range(1, 5)] + [span(9, "new", 9, 9.1, step=3)])
    there = spans_of([span(n, "a", n, n + 0.1, step=n) for n in range(1, 3)] + [span(9, "gone", 9, 9.2, step=1)])
    found = summary.changes(here, there)
    assert [one.name for one in found] == ["a", "gone", "new"]
    assert found[0].more == pytest.approx(0.4) and found[1].here == 0
    assert "5.00x" in summary.against(here, there).splitlines()[1]


def test_a_typical_step_is_the_middle_one() -> None:
    """By the time from its first begin to its last end."""
    spans = [span(n, "s", n * 10, n * 10 + length, step=n) for n, length in enumerate((5, 1, 9))]
    assert summary.typical_step(spans_of(spans)) == 0 and summary.typical_step(spans_of([])) is None


def test_a_step_of_many_spans_is_walked_quickly() -> None:
    """The path takes a time that grows with the spans, not with their square; the picture has its bounds."""
    many = spans_of(span(n, "s", n, n + 1, lane=f"t{n % 50}") for n in range(1, 3001))
    assert len(summary.critical_path(many)) == 3000
    assert "and 10 more timelines" in flame.draw(many)


def test_the_path_through_many_timelines_is_the_one_through_all_of_them() -> None:
    """Found with heaps, and the same as comparing the newest leaf of every timeline at each leg."""
    pick = random.Random(1)
    for _ in range(100):
        spans = [
            span(
                at + 1,
                "a",
                begin := pick.randrange(50),
                begin + pick.randrange(20),
                lane=f"{kind}{pick.randrange(6)}",
                kind=kind,
            )
            for at, kind in enumerate(pick.choices(["", "device"], k=30))
        ]
        legs = summary.critical_path(spans_of(spans))
        assert [(leg.begin, leg.end) for leg in legs if leg.span] == plain_path(spans_of(spans))


def plain_path(spans: Spans) -> list[tuple[int, int]]:
    """The legs, found by comparing the newest leaf of every timeline."""
    leaves = sorted((leaf for leaf in summary._leaves(spans) if leaf.end > leaf.begin), key=lambda one: one.begin)
    begin, at = min((leaf.begin for leaf in leaves), default=0), max((leaf.end for leaf in leaves), default=0)
    near, legs = int((at - begin) * summary.NEAR), []
    while at > begin:
        newest = {leaf.span.timeline: leaf for leaf in leaves if leaf.begin < at}.values()
        latest = max(min(leaf.end, at) for leaf in newest)
        ready = [leaf for leaf in newest if min(leaf.end, at) >= latest - near]
        one = max(ready, key=lambda leaf: (leaf.is_device and leaf.end <= at + near, min(leaf.end, at), leaf.begin))
        legs.append((one.begin, min(one.end, at) if min(one.end, at) < at - near else at))
        at = one.begin
    return legs[::-1]
