"""What ezpz writes to a run."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.frontends.ezpz.run_writer import Writer


def test_rows_without_a_step_are_counted(tmp_path: Path) -> None:
    """A metric called `step` is the step of its row."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        writer = Writer(run)
        for metrics in ({"loss": 1.0}, {"loss": 2.0}, {"loss": 3.0, "step": 10}):
            writer.log(metrics)
    series = chiplog.read(run.dir).series("loss")
    assert series.steps.tolist() == [0, 1, 10] and series.values.tolist() == [1.0, 2.0, 3.0]
