"""The arithmetic of spans, on numbers that can be checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chiplog.metrics.step_spans import StepTimes, common, gaps, length, quantile, times, union
from tests.store.spans.building import spans_of
from tests.support.spans import STEP, S, span


def test_intervals_are_joined_cut_and_measured() -> None:
    """As sets of time."""
    assert union([(5, 7), (0, 2), (1, 3), (7, 8)]) == [(0, 3), (5, 8)]
    assert common([(0, 3), (5, 8)], [(2, 6)]) == [(2, 3), (5, 6)]
    assert gaps([(0, 3), (5, 8)]) == [(3, 5)] and length([(0, 3), (5, 8)]) == 6
    assert union([]) == common([], [(0, 1)]) == gaps([]) == []


@pytest.mark.parametrize("count", [1, 2, 3, 10, 101])
def test_quantiles_are_those_of_numpy(count: int) -> None:
    """Between the two nearest numbers."""
    numbers = sorted(np.random.default_rng(count).integers(0, 1000, count).tolist())
    for share in (0.0, 0.5, 0.95, 1.0):
        assert quantile(numbers, share) == pytest.approx(np.quantile(numbers, share))


def test_own_time_is_what_nothing_inside_accounts_for() -> None:
    """On the same timeline only: what a device does meanwhile is not inside."""
    rows = {(one.name, one.kind): one for one in STEP.table()}
    assert rows["step", ""].total == 10 and rows["step", ""].own == 1
    assert rows["sync", ""].own == 5.5 and rows["forward", ""].own == 1
    assert rows["forward", "device"].own == 3.5


def test_idle_overlap_and_wait() -> None:
    """Idle between spans of a timeline; both busy; given to a device and not taken up."""
    assert STEP.device().idle() == {"gpu0": 0.0}
    assert spans_of([span(1, "a", 0, 1), span(2, "b", 3, 4), span(3, "c", 3.5, 6)]).idle() == {"main": 2.0}
    assert STEP.overlap() == 6.5
    assert STEP.device().wait() == pytest.approx(0.5 + 3)


def test_a_table_has_counts_and_quantiles_by_step() -> None:
    """Or over all steps."""
    spans = spans_of([span(n, "a", n, n + d, step=n // 2) for n, d in enumerate((0.1, 0.2, 0.3, 0.5))])
    first, second = spans.table()
    assert (first.step, first.count, second.step) == (0, 2, 1)
    assert first.total == pytest.approx(0.3) and first.p50 == pytest.approx(0.15)
    [whole] = spans.table(by_step=False)
    assert whole.count == 4 and whole.longest == pytest.approx(0.5) and whole.p95 == pytest.approx(0.47)


def test_a_steps_row_of_metrics() -> None:
    """The names that are logged, in seconds."""
    row = times(list(STEP))
    assert row["perf/step/total_sec"] == 10 and row["perf/step/self_sec"] == 1
    assert row["perf/forward/device_sec"] == 3.5 and row["perf/overlap_sec"] == 6.5
    assert row["perf/wait_sec"] == pytest.approx(3.5) and row["perf/idle_sec"] == 0
    assert "perf/step/count" not in row and "perf/queue/total_sec" not in row


def test_steps_are_given_out_when_two_later_ones_have_begun() -> None:
    """So that device spans that come late are in; the rest at the end."""

    def batch(*steps: int) -> dict[str, Any]:
        n = len(steps)
        return {
            "names": ["s"], "threads": ["main"], "kinds": {}, "name": [0] * n, "thread": [0] * n, "id": [1] * n,
            "parent": [0] * n, "start": [0] * n, "duration": [S] * n, "step": list(steps),
        }  # fmt: skip

    adding = StepTimes()
    assert list(adding.feed(batch(0, 0))) == [] and list(adding.feed(batch(1))) == []
    [(step, row)] = adding.feed(batch(0, 2))
    assert step == 0 and row["perf/s/total_sec"] == 3 and row["perf/s/count"] == 3
    assert [step for step, _ in adding.rest()] == [1, 2]
