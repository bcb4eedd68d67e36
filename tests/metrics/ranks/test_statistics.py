"""The arithmetic of statistics across ranks."""

from __future__ import annotations

import math
import statistics
from array import array

import pytest

from chiplog.metrics.ranks.statistics import Across, Extras, Values, across, is_reduced


def said(**row: float) -> list[Values]:
    return [Values(tuple(row), array("d", row.values()).tobytes())]


def test_mean_max_min_and_the_deviation_of_the_population() -> None:
    """In doubles; the same as by the textbook."""
    values = [3.5, -1.25, 7.0, 7.0]
    row = across({rank: said(x=value) for rank, value in enumerate(values)}).row
    assert row == {
        "x/mean": statistics.fmean(values), "x/max": 7.0, "x/min": -1.25, "x/std": pytest.approx(statistics.pstdev(values)),
    }  # fmt: skip


@pytest.mark.parametrize("base", [0.0, 123456789.0, 1e15])
def test_large_values_close_together_keep_their_deviation(base: float) -> None:
    """The difference of two large sums of squares would not."""
    row = across({0: said(x=base), 1: said(x=base + 1)}).row
    assert (row["x/mean"], row["x/std"]) == (base + 0.5, 0.5)


@pytest.mark.parametrize("extras", [Extras(), Extras(count=True)])
def test_a_value_that_is_called_like_a_statistic_is_left_alone(extras: Extras) -> None:
    """Somebody logs x and x/mean: theirs is the mean that is kept."""
    both = {"x": 1.0, "x/mean": 77.0, "x/count": 5.0}
    for row in (
        across({0: said(**both), 1: said(**both)}, extras, world=2).row,
        across({0: said(**both), 1: said(y=1.0)}, extras, world=2).row,
    ):
        assert not {"x/mean", "x/count"} & set(row) and row["x/max"] == 1.0 and row["x/mean/mean"] == 77.0


def test_names_are_matched_whatever_their_order() -> None:
    """And a name that a rank lacks has statistics of the others, with their count."""
    row = across({0: said(a=1.0, b=100.0), 1: said(b=200.0, a=3.0), 2: said(b=300.0)}).row
    assert (row["a/mean"], row["a/count"], row["b/mean"]) == (2.0, 2, 200.0)
    assert "b/count" not in row


def test_a_rank_that_has_said_nothing_shows_in_the_count() -> None:
    assert across({0: said(x=1.0), 1: said(x=2.0)}, world=3).row["x/count"] == 2


def test_values_that_are_not_finite_are_left_out_and_their_ranks_named() -> None:
    """Where nobody has a finite value, the statistics are NaN."""
    found = across({0: said(x=1.0, y=math.nan), 4: said(x=math.inf, y=math.nan), 7: said(x=3.0, y=-math.inf)})
    assert (found.row["x/mean"], found.row["x/max"], found.row["x/min"], found.row["x/count"]) == (2.0, 3.0, 1.0, 2)
    assert all(math.isnan(found.row[f"y/{kind}"]) for kind in ("mean", "max", "min", "std"))
    assert found.row["y/count"] == 0
    assert found.bad == {"x": [4], "y": [0, 4, 7]}


def test_an_absent_value_is_not_a_bad_one() -> None:
    assert across({0: said(x=1.0), 1: said(y=1.0)}).bad == {}


def test_extras_on_request() -> None:
    """Who holds the extremes, quantiles by nearest rank, and the count; whole numbers where they are."""
    ranks = {rank: said(x=float(rank * rank)) for rank in range(5)}
    row = across(ranks, Extras(count=True, where=True, quantiles=(0, 50, 99))).row
    assert (row["x/p0"], row["x/p50"], row["x/p99"]) == (0.0, 4.0, 16.0)
    assert [row["x/max_rank"], row["x/min_rank"], row["x/count"]] == [4, 0, 5]
    assert type(row["x/max_rank"]) is int
    assert list(row)[:4] == ["x/mean", "x/max", "x/min", "x/std"]


def test_the_last_word_of_a_rank_counts() -> None:
    """Where it logs a name twice in one step."""
    row = across({0: [*said(x=1.0), *said(x=5.0, y=1.0)], 1: said(x=7.0)}).row
    assert (row["x/mean"], row["y/count"]) == (6.0, 1)


def test_nothing_gives_nothing() -> None:
    assert across({}) == Across({}, {}) == across({0: said()})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train/loss", True), ("epoch/loss", True), ("train/tokens", True), ("lr", False), ("train/lr", False),
        ("lr/group0", False), ("lr-AdamW", False), ("train/epoch", False), ("step", False), ("flr", True),
    ],
)  # fmt: skip
def test_counters_and_hyperparameters_are_known_by_their_names(name: str, expected: bool) -> None:
    assert is_reduced(name) is expected
