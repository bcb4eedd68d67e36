"""What curves are drawn over."""

from __future__ import annotations

import numpy as np
import pytest

import chiplog
from chiplog.core.errors import BadSetting
from chiplog.views.x_axis import over, positions


def stored(*rows: tuple[int, dict[str, float]]) -> chiplog.Stored:
    with chiplog.init(project="p", sinks="none") as run:
        for step, row in rows:
            run.log(row, step=step)
    return chiplog.read(run.dir)


def test_tokens_of_each_step_are_added_up() -> None:
    """A rare metric stands where all tokens up to its step have been seen."""
    run = stored(*[(step, {"train/tokens": 10}) for step in range(5)], (3, {"eval": 1.0}))
    assert over(run, run.series("eval"), "tokens").tolist() == [40.0]


def test_tokens_that_are_a_total_are_taken_as_they_are() -> None:
    run = stored(*[(step, {"train/tokens": 10 * (step + 1), "loss": 1.0}) for step in range(4)])
    assert over(run, run.series("loss"), "tokens").tolist() == [10.0, 20.0, 30.0, 40.0]


def test_tokens_logged_several_times_in_a_step_are_all_counted() -> None:
    """And a total that is logged again is still a total."""
    run = stored((0, {"tokens": 10}), (0, {"tokens": 10, "loss": 1.0}), (1, {"tokens": 10, "loss": 1.0}))
    assert over(run, run.series("loss"), "tokens").tolist() == [20.0, 30.0]
    run = stored((0, {"tokens_seen": 10}), (0, {"tokens_seen": 10, "loss": 1.0}), (1, {"tokens_seen": 20, "loss": 1.0}))
    assert over(run, run.series("loss"), "tokens").tolist() == [10.0, 20.0]


def test_an_epoch_is_a_total_whatever_it_is() -> None:
    """Whole epochs, the same for many steps, are not added up."""
    run = stored(*[(step, {"train/epoch": step // 3, "loss": 1.0}) for step in range(6)])
    assert positions(run, run.series("loss"), "epoch").tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


def test_time_is_by_the_wall_clock_or_relative() -> None:
    run = stored((0, {"loss": 1.0}))
    series = run.series("loss")
    wall, since = positions(run, series, "time")[0], positions(run, series, "relative")[0]
    assert wall - since == pytest.approx(run.created / 1e9) and np.isnan(positions(run, series, "flops")).all()


def test_another_series_is_looked_up_by_step() -> None:
    """Before its first point there is none."""
    run = stored((0, {"loss": 1.0}), (1, {"loss": 1.0, "epoch": 0.5}), (2, {"loss": 1.0}))
    np.testing.assert_array_equal(over(run, run.series("loss"), "epoch"), [np.nan, 0.5, 0.5])


def test_time_is_in_seconds_since_the_run_began() -> None:
    run = stored((0, {"loss": 1.0}), (1, {"loss": 1.0}))
    values = over(run, run.series("loss"), "time")
    assert 0 <= values[0] <= values[1] < 60


def test_what_is_not_there_is_said() -> None:
    run = stored((0, {"loss": 1.0}))
    with pytest.raises(BadSetting, match=r"no series 'tokens' for the x axis.*loss"):
        over(run, run.series("loss"), "tokens")
