"""Series for the browser."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import chiplog
from chiplog.views.charts.bucketed_series import DrawnLine, SeriesCache, XValues, draw, over, pack


def line(count: int) -> DrawnLine:
    return DrawnLine(np.arange(count, dtype=float), np.sin(np.arange(count, dtype=float)), 0.0)


def test_a_short_line_is_sent_as_points_and_a_long_one_in_buckets() -> None:
    """Buckets keep the extremes."""
    (short, points), (long, buckets) = draw([line(10), line(1000)], XValues(), 20)
    assert short["mode"] == "points" and points["x"].tolist() == list(range(10))
    assert long["mode"] == "buckets" and long["total"] == 1000 and len(buckets["x"]) <= 20
    assert buckets["max"].max() == line(1000).y.max() and buckets["min"].min() == line(1000).y.min()


def test_a_response_starts_with_its_header() -> None:
    """Which says where each array is; arrays are aligned to eight bytes."""
    packed = pack([[({"name": "loss"}, line(3))]], XValues(), 20)
    size = int.from_bytes(packed[:8], "little")
    (about,) = json.loads(packed[8 : 8 + size])["series"]
    place, count = about["arrays"]["x"]
    values = np.frombuffer(packed[8 + size :], "<f8")
    assert size % 8 == 0 and about["name"] == "loss" and values[place : place + count].tolist() == [0.0, 1.0, 2.0]


def test_points_are_in_the_order_of_x(tmp_path: Path) -> None:
    """Those without an x are left out."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        for step, tokens in enumerate((30.0, 10.0, float("nan"))):
            run.log({"loss": float(step), "position": tokens}, step=step)
    stored = chiplog.read(run.dir)
    drawn = over(stored, stored.series("loss"), "metric:position")
    assert drawn.x.tolist() == [10.0, 30.0] and drawn.y.tolist() == [1.0, 0.0]


def test_names_that_no_run_has_do_not_fill_the_cache(tmp_path: Path) -> None:
    """An empty line takes memory too: whoever may ask can invent names without end."""
    with chiplog.init("p", id="one", dir=tmp_path, sinks="none") as run:
        run.log({"loss": 1.0}, step=0)
    stored, cache = chiplog.read("one", dir=tmp_path), SeriesCache(memory=100_000)
    for number in range(300):
        cache.line(stored, "stamp", f"{number}" + "x" * 1000, XValues("step"))
    assert len(cache._lines) < 50
