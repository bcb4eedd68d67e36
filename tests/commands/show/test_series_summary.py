"""A series in a few numbers."""

from __future__ import annotations

import chiplog
from chiplog.commands.show.series_summary import summaries


def test_nan_is_counted_and_does_not_spoil_the_range() -> None:
    """The last value is as it was logged; the range is that of the numbers."""
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        for value in (3, float("nan"), 1, 2):
            run.log({"x": value})
        run.log({"y": float("nan")})
    stored = chiplog.read(run.dir)
    x, y = summaries(stored, ["x", "y"])
    assert (x.last, x.min, x.max, x.points, x.nan) == (2, 1.0, 3.0, 4, 1)
    assert (y.min, y.max, y.points, y.nan) == (None, None, 1, 1)


def test_a_series_without_points_is_left_out() -> None:
    """Such as one that a newer launch hides."""
    with chiplog.init(project="p", sinks="none") as run:
        run.log({"x": 1.0})
    assert [one.series.name for one in summaries(chiplog.read(run.dir), ["other", "x"])] == ["x"]
