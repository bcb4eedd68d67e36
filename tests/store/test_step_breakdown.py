"""A typical step of a stored run, in its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog import cli
from chiplog.core import records
from tests.views.web.stores import BEGAN, Journal, make_run

S = 10**9


def test_a_usual_step_falls_into_its_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compute by the model, data and communication as measured; together they are the step."""
    path = make_run(tmp_path, "p", "r")
    journal = Journal(path)
    times = {"train/step_time_sec": 0.1, "train/data_time_sec": 0.02, "train/mfu": 0.4}
    for step in range(10):
        start = BEGAN + step * S // 10
        journal.add(records.Step, 0.1, step=step, metrics=times)
        journal.add(
            records.SpansRecord, names=["step", "all_reduce"], threads=["MainThread"], name=[0, 1], thread=[0, 0],
            id=[2 * step + 1, 2 * step + 2], parent=[0, 2 * step + 1], start=[start, start + S // 100],
            duration=[S // 10, S * 15 // 1000], step=[step, step],
        )  # fmt: skip
    journal.finish()
    parts = {part.name: part for part in chiplog.read(path).step_parts()}
    assert parts["compute at peak"].seconds == pytest.approx(0.04) and parts["compute at peak"].source == "modelled"
    assert parts["data wait"].seconds == pytest.approx(0.02) and parts["data wait"].source == "measured"
    assert parts["exposed communication"].seconds == pytest.approx(0.015)
    assert sum(part.seconds for part in parts.values()) == pytest.approx(0.1)
    assert cli.main(["show", str(path)]) == 0
    assert "typical step (100ms): compute at peak 40ms (40.0%, modelled)" in capsys.readouterr().out


def test_a_run_that_times_no_steps_has_no_parts(tmp_path) -> None:
    """Nothing is made up."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.log({"train/loss": 1.0})
    assert chiplog.read(run.dir).step_parts() == []
