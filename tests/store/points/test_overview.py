"""A series at a glance says what its points say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.core.errors import UnknownSeries
from chiplog.store.parts import writer
from chiplog.store.parts.part import Part
from chiplog.store.points import blocks
from tests.store.parts.compacting import compact_all


def test_nan_is_counted_and_does_not_spoil_the_range() -> None:
    """The last value is as it was logged; the range is that of the numbers."""
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        for value in (3, float("nan"), 1, 2):
            run.log({"x": value})
        run.log({"y": float("nan")})
    stored = chiplog.read(run.dir)
    x, y = stored.overview("x"), stored.overview("y")
    assert x is not None and (x.last, x.range, x.points, x.nans) == (2, (1.0, 3.0), 4, 1)
    assert y is not None and (y.range, y.points, y.nans) == (None, 1, 1)
    with pytest.raises(UnknownSeries, match="has no series 'z'; available: x, y"):
        stored.overview("z")


@pytest.fixture
def long_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An attempt of 6,000 steps that another one continues from step 5,500 on, compacted; blocks are of 16 points."""
    monkeypatch.setattr(blocks, "SIZE", 16)
    monkeypatch.setattr(writer, "LONG", 4096)
    values = np.random.default_rng(0).standard_normal(9000)
    values[[100, 3000]] = np.nan, np.inf
    for begin, end in ((0, 6000), (5500, 9000)):
        with chiplog.init("p", id="long", sinks="none", dir=tmp_path, alerts=False, compact=False) as run:
            for step in range(begin, end):
                run.log({"x": values[step], "y": 1.0}, step=step)
    compact_all(run.dir)
    return run.dir


def test_blocks_of_parts_say_the_same_as_points(long_run: Path) -> None:
    """In the default view: a newer launch hides points within a block."""
    stored = chiplog.read(long_run)
    series, overview = stored.series("x"), stored.overview("x")
    assert overview is not None and overview.points == len(series) == 9000
    numbers = series.values[~np.isnan(series.values)]
    assert overview.range == (numbers.min(), numbers.max()) and overview.nans == 1
    assert overview.last == series.last and overview.blocks.total.sum() == pytest.approx(
        numbers[np.isfinite(numbers)].sum()
    )


def test_buckets_of_a_long_series_need_no_points(long_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hide no spike and no NaN, and differ from those of points only in where they start."""
    attempt = chiplog.read(long_run).series("x", attempt=1)
    monkeypatch.setattr(Part, "column", None)
    stored = chiplog.read(long_run)
    few, many = stored.buckets("x", 10), stored.buckets("x", 10_000)
    assert len(few.counts) == 10 and few.counts.sum() == many.counts.sum() == 9000
    assert few.nans.sum() == 1 and few.max.max() == np.inf
    assert len(many.counts) == 9000, "there are fewer blocks, so points are read"
    exact = attempt.buckets(5)
    assert abs(int(exact.counts[0]) - 1200) <= 16


def test_a_part_without_blocks_is_read_from_its_points(long_run: Path) -> None:
    """As older parts are; blocks that do not add up are not believed either."""
    expected = chiplog.read(long_run).overview("x")
    assert expected is not None
    found = sorted((long_run / "parts").glob("*.blocks.parquet"))
    assert len(found) == 1, "the second attempt is too short for blocks"
    found[0].write_bytes(b"PAR1 nonsense")
    damaged = chiplog.read(long_run).overview("x")
    found[0].unlink()
    older = chiplog.read(long_run).overview("x")
    for one in (damaged, older):
        assert one is not None and (one.last, one.range, one.points, one.nans) == (
            expected.last,
            expected.range,
            expected.points,
            expected.nans,
        )
