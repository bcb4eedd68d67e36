"""Which step a row belongs to."""

from __future__ import annotations

import math

import pytest

from chiplog.core.clock import RunClock
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.step_count import StepCount
from chiplog.core.tracing.tracer import Tracer


@pytest.fixture
def steps() -> StepCount:
    return StepCount(Recorder("run", None, RunClock()), Tracer(None, None), first=5)


def test_rows_without_steps_count_from_the_first(steps: StepCount) -> None:
    """And are marked as counted."""
    assert [steps.resolve(None) for _ in range(3)] == [(5, True), (6, True), (7, True)]
    assert steps.next == 8 and steps.newest == 7 and not steps.explicit


def test_once_a_step_is_given_rows_without_one_join_the_newest(steps: StepCount) -> None:
    """Those that were counted before stay counted."""
    steps.resolve(None)
    assert steps.resolve(100) == (100, False) and steps.explicit
    assert steps.resolve(None) == (100, False)
    assert steps.is_counted(5) and not steps.is_counted(100)
    assert steps.resolve(5) == (5, False) and steps.resolve(None) == (5, True)


def test_a_step_that_is_begun_is_joined(steps: StepCount) -> None:
    """The next one is counted, a given one is not."""
    assert steps.begin() == 5 and steps.resolve(None) == (5, True)
    assert steps.begin(9) == 9 and steps.resolve(None) == (9, False)
    assert steps.begin() == 10 and steps.join(None) == 10 and steps.is_counted(10)


def test_odd_steps(steps: StepCount, capsys: pytest.CaptureFixture[str]) -> None:
    """Any finite number is a step; what is not one takes the newest, and that is reported."""
    assert steps.resolve(2.5) == (2.5, False)
    assert steps.resolve(True) == (1, False)
    assert steps.resolve("seven") == (1, False)  # type: ignore[arg-type]
    assert "a step is a finite number, not 'seven'" in capsys.readouterr().err
    assert steps.resolve(math.inf) == steps.resolve(math.nan) == (1, False)
    assert steps.next == 2


def test_an_evaluation_before_the_first_row_joins_the_last_step_before(steps: StepCount) -> None:
    """As in a run that is continued to evaluate the model."""
    assert steps.join(None) == 4 and steps.resolve(None) == (5, True)
