"""A typical step of a stored run, in its parts."""

from __future__ import annotations

import time

import pytest

import chiplog
from chiplog import cli


def test_a_usual_step_falls_into_its_parts(tmp_path, capsys) -> None:
    """Compute by the model, data and communication as measured; together they are the step."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        for step in range(10):
            with run.span("step"), run.span("all_reduce"):
                run.log({"train/step_time_sec": 0.1, "train/data_time_sec": 0.02, "train/mfu": 0.4}, step=step)
                time.sleep(0.01)
    parts = {part.name: part for part in chiplog.read(run.dir).step_parts()}
    assert parts["compute at peak"].seconds == pytest.approx(0.04) and parts["compute at peak"].source == "modelled"
    assert parts["data wait"].seconds == pytest.approx(0.02) and parts["data wait"].source == "measured"
    assert 0.01 <= parts["exposed communication"].seconds < 0.03
    assert sum(part.seconds for part in parts.values()) == pytest.approx(0.1)
    assert cli.main(["show", str(run.dir)]) == 0
    assert "typical step (100ms): compute at peak 40ms (40.0%, modelled)" in capsys.readouterr().out


def test_a_run_that_times_no_steps_has_no_parts(tmp_path) -> None:
    """Nothing is made up."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.log({"train/loss": 1.0})
    assert chiplog.read(run.dir).step_parts() == []
