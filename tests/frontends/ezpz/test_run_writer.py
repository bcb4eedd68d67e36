"""What ezpz writes to a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.frontends.ezpz import History
from chiplog.frontends.ezpz.backends.custom import QueuedCalls
from chiplog.frontends.ezpz.run_writer import Writer
from chiplog.frontends.ezpz.tracker import Tracker


def test_rows_without_a_step_are_counted(tmp_path: Path) -> None:
    """A metric called `step` is the step of its row."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        writer = Writer(run)
        for metrics in ({"loss": 1.0}, {"loss": 2.0}, {"loss": 3.0, "step": 10}):
            writer.log(metrics)
    series = chiplog.read(run.dir).series("loss")
    assert series.steps.tolist() == [0, 1, 10] and series.values.tolist() == [1.0, 2.0, 3.0]


class Keeps:
    """Remembers its rows."""

    def __init__(self) -> None:
        self.rows: list[object] = []

    def log(self, metrics: dict[str, object], step: int | None = None, commit: bool = True) -> None:
        self.rows.append((dict(metrics), step))

    def log_config(self, config: object) -> None: ...

    def finish(self) -> None: ...


def test_values_of_three_dimensions_are_lists_on_every_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 has them through the journal, the other ranks have them directly; both get the same."""
    monkeypatch.chdir(tmp_path)
    first, other = Keeps(), Keeps()
    cube = np.arange(8.0).reshape(2, 2, 2)
    cube[1, 1, 1] = np.inf
    history = History(tracker=Tracker([first]))
    queued = QueuedCalls([other])
    for step, row in enumerate(({"loss": 1.0, "cube": cube}, {"cube": cube.tolist()}, {"loss": 2.0})):
        history.update(row, step=step)
        queued.log(row, step, True)
    values = history.history["cube"]
    history.finalize(outdir=tmp_path / "out", plot=False)
    queued.finish(20.0)
    assert (
        first.rows
        == other.rows
        == [({"loss": 1.0, "cube": cube.tolist()}, 0), ({"cube": cube.tolist()}, 1), ({"loss": 2.0}, 2)]
    )
    assert values == [cube.tolist()] * 2
    assert set(chiplog.read(history.run.dir).names()) == {"loss"}
