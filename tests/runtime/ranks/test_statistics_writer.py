"""Statistics across ranks, written into a run."""

from __future__ import annotations

from array import array
from pathlib import Path

import chiplog
from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import GatheredStep, RankRow, Topic
from chiplog.runtime.ranks.reduce_options import ReduceOptions
from chiplog.runtime.ranks.statistics_writer import StatisticsWriter


def gathered(*losses: float) -> GatheredStep:
    rows = {rank: [RankRow(7, Values(("loss",), array("d", [loss]).tobytes()))] for rank, loss in enumerate(losses)}
    return GatheredStep(7, rows, key=7)


def test_a_caller_gets_the_same_statistics_only_once() -> None:
    """If `log` waits for them, it has returned them with its row."""
    writer = StatisticsWriter(ReduceOptions(sync=True), {}, main=True)
    first = writer.statistics(Topic.TRAIN, gathered(1.0, 3.0), 2)
    assert first["loss/mean"] == 2.0 and first["loss/max"] == 3.0
    assert writer.statistics(Topic.TRAIN, gathered(1.0, 3.0), 2) == {}


def test_ranks_that_are_not_finite_are_named_once(tmp_path: Path) -> None:
    """Until they are finite again."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        writer = StatisticsWriter(ReduceOptions(), {}, main=True)
        writer.run = run
        for losses in ((1.0, float("nan")), (1.0, float("nan")), (1.0, 1.0), (1.0, float("inf"))):
            writer.write(Topic.TRAIN, gathered(*losses), 2)
            assert not writer.is_writing
    alerts = [record.title for record in chiplog.read(run.dir).records("alert")]  # type: ignore[union-attr]
    assert alerts == ["loss is not finite on rank 1"] * 2
