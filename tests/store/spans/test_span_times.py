"""Arithmetic on the times of spans."""

from __future__ import annotations

import numpy as np
import pytest

from chiplog.store.spans.span import StoredSpan
from chiplog.store.spans.span_times import first_seen
from tests.store.spans.building import spans_of

SPANS = spans_of(
    [
        StoredSpan(1, 0, "a", "main", 0, 10, step=1),
        StoredSpan(2, 0, "a", "main", 30, 10, step=2),
        StoredSpan(3, 0, "k", "tpu0", 5, 20, step=1, kind="device"),
        StoredSpan(4, 0, "k", "tpu0", 35, 20, step=2, kind="device"),
    ]
)


def test_idle_time_is_between_the_spans_of_a_timeline() -> None:
    """Not before the first or after the last."""
    assert SPANS.idle() == pytest.approx({"main": 20e-9, "tpu0": 10e-9})
    assert SPANS[:0].idle() == {}


def test_overlap_is_when_host_and_device_are_both_busy() -> None:
    """5 ns at the end of each host span."""
    assert SPANS.overlap() == pytest.approx(10e-9) and SPANS.host().overlap() == 0


def test_a_step_lasts_from_its_first_start_to_its_last_end() -> None:
    """Over all timelines."""
    assert SPANS.lengths() == {1: 25, 2: 25}


def test_codes_are_listed_in_the_order_of_first_appearance() -> None:
    """Each once."""
    assert first_seen(np.array([3, 1, 3, 2, 1])) == [3, 1, 2]
