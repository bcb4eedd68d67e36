"""A logged histogram in a few numbers."""

from __future__ import annotations

from chiplog.core.records import HistogramRecord
from chiplog.store.contents.distribution import distribution


def test_a_histogram_has_a_total_a_mean_and_a_range() -> None:
    """As exact as its bins; empty bins at the ends are not part of the range."""
    one = distribution(HistogramRecord(0, 0, "w", [0, 1, 2, 3, 4], [0, 3, 1, 0], step=7))
    assert one is not None
    assert (one.step, one.total, one.mean, one.min, one.max) == (7, 4, 1.75, 1.0, 3.0)


def test_an_empty_histogram_has_no_mean() -> None:
    """And no range."""
    one = distribution(HistogramRecord(0, 0, "w", [0, 1], [0]))
    assert one is not None and one.total == 0 and one.mean is one.min is one.max is None


def test_a_histogram_that_makes_no_sense_is_left_out() -> None:
    """Too few edges, or an edge that is not finite."""
    assert distribution(HistogramRecord(0, 0, "w", [0], [1])) is None
    assert distribution(HistogramRecord(0, 0, "w", [0, "inf"], [1])) is None
