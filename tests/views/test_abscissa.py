"""What curves are drawn over."""

from __future__ import annotations

import numpy as np
import pytest

import chiplog
from chiplog.core.errors import BadSetting
from chiplog.views.abscissa import over


def stored(*rows: tuple[int, dict[str, float]]) -> chiplog.Stored:
    with chiplog.init(project="p", sinks="none") as run:
        for step, row in rows:
            run.log(row, step=step)
    return chiplog.read(run.dir)


def test_tokens_of_each_step_are_added_up() -> None:
    """A rare metric stands where all tokens up to its step have been seen."""
    run = stored(*[(step, {"train/tokens": 10}) for step in range(5)], (3, {"eval": 1.0}))
    assert over(run, run.series("eval"), "tokens").values.tolist() == [40.0]


def test_tokens_that_are_a_total_are_taken_as_they_are() -> None:
    run = stored(*[(step, {"train/tokens": 10 * (step + 1), "loss": 1.0}) for step in range(4)])
    assert over(run, run.series("loss"), "tokens").values.tolist() == [10.0, 20.0, 30.0, 40.0]


def test_another_series_is_looked_up_by_step() -> None:
    """Before its first point there is none."""
    run = stored((0, {"loss": 1.0}), (1, {"loss": 1.0, "epoch": 0.5}), (2, {"loss": 1.0}))
    np.testing.assert_array_equal(over(run, run.series("loss"), "epoch").values, [np.nan, 0.5, 0.5])


def test_time_is_in_seconds_since_the_run_began() -> None:
    run = stored((0, {"loss": 1.0}), (1, {"loss": 1.0}))
    values = over(run, run.series("loss"), "time").values
    assert 0 <= values[0] <= values[1] < 60


def test_what_is_not_there_is_said() -> None:
    run = stored((0, {"loss": 1.0}))
    with pytest.raises(BadSetting, match=r"nothing is logged as 'tokens'.*loss"):
        over(run, run.series("loss"), "tokens")
