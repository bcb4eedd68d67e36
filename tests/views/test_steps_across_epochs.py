"""Runs in the order of their calls."""

from __future__ import annotations

import chiplog
from chiplog.views.steps_across_epochs import ByCall


def test_steps_that_start_again_continue() -> None:
    """The second epoch follows the first one, and the logged steps can still be found."""
    with chiplog.init(project="p", sinks="none") as run:
        for epoch in range(2):
            for step in range(3):
                run.log({"loss": float(10 * epoch + step)}, step=step)
    stored = ByCall(run.dir)
    series = stored.series("loss")
    assert series.steps.tolist() == [0, 1, 2, 3, 4, 5] and series.values.tolist() == [0, 1, 2, 10, 11, 12]
    assert stored.steps_at(series.steps).tolist() == [0, 1, 2, 0, 1, 2]


def test_steps_that_rise_stay_as_they_are() -> None:
    """Gaps included."""
    with chiplog.init(project="p", sinks="none") as run:
        for step in (0, 5, 7):
            run.log({"loss": 1.0}, step=step)
    assert ByCall(run.dir).series("loss").steps.tolist() == [0, 5, 7]
