"""The sections of a report about the machine."""

from __future__ import annotations

import chiplog
from chiplog.views.report.build import report
from chiplog.views.report.document import Grid
from tests.support.reports import section


def test_ranks_are_summed_up() -> None:
    """The last statistics of each metric, and who held the others up; not as metrics of their own."""
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        for step in range(4):
            run.log({"loss": 1.0, "loss/mean": 1.5, "loss/max": 2.0, "loss/min": 1.0, "loss/std": 0.5}, step=step)
            run.log({"ranks/slowest": step % 4 // 3, "ranks/behind_sec": 0.25, "ranks/skew": 0.1}, step=step)
    document = report(chiplog.read(run.dir))
    grid, words = (one for one in section(document, "Ranks").blocks if not isinstance(one, Grid) or one.rows)
    assert grid.rows == [["loss", "1.5", "2", "1", "0.5"]]
    assert "Rank 0 was the slowest most often, at 75% of the steps" in words.text and "250ms behind" in words.text
    assert [row[0] for row in section(document, "Metric Overview").blocks[0].rows] == ["loss"]
