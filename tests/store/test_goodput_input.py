"""Goodput of a stored run: from what its journals say."""

from __future__ import annotations

import time

import pytest

import chiplog
from chiplog import cli


def train(tmp_path, steps, **options) -> chiplog.Run:
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none", **options) as run:
        for step in steps:
            run.log({"train/loss": 1.0, "train/step_time_sec": 0.004, "train/data_time_sec": 0.001}, step=step)
            time.sleep(0.005)
    return run


def test_steps_data_and_the_rest_add_up(tmp_path) -> None:
    """Twenty steps of 4 ms, of which 1 ms waited for data."""
    run = train(tmp_path, range(20))
    found = chiplog.read(run.dir).goodput()
    assert found.seconds["step"] == pytest.approx(0.06) and found.seconds["data"] == pytest.approx(0.02)
    assert sum(found.seconds.values()) == pytest.approx(found.wall)
    assert found.attempts == 1 and found.seconds["lost"] == 0


def test_a_restart_from_an_older_step_loses_what_it_repeats(tmp_path) -> None:
    """Ten of the twenty steps are done again: half of the first attempt's time is lost, and the pause is down time."""
    train(tmp_path, range(20))
    run = train(tmp_path, range(10, 30), resume="must")
    found = chiplog.read(run.dir).goodput()
    assert found.attempts == 2
    assert found.seconds["lost"] == pytest.approx(0.04)
    assert found.seconds["step"] == pytest.approx(0.09)
    assert found.seconds["down"] > 0


def test_a_row_may_stand_for_several_steps(tmp_path) -> None:
    """With `log_every`, the time of the steps between two rows is in it."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.meter(log_every=5)
        for _ in run.steps(range(20)):
            time.sleep(0.004)
    found = chiplog.read(run.dir).goodput()
    assert len(chiplog.read(run.dir).series("train/step_time_sec")) < 10
    assert 20 * 0.004 * 0.9 < found.seconds["step"] + found.seconds["warmup"] <= found.wall


def test_spans_tell_evals_and_checkpoints_apart(tmp_path) -> None:
    """What `run.span("eval")` took is not idle time."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        for _ in range(4):
            with run.step():
                run.log({"train/loss": 1.0})
        with run.span("eval"):
            time.sleep(0.02)
        with run.span("checkpoint"):
            time.sleep(0.03)
    found = chiplog.read(run.dir).goodput()
    assert found.seconds["eval"] >= 0.02 and found.seconds["checkpoint"] >= 0.03


def test_without_step_times_the_rows_are_the_clock(tmp_path) -> None:
    """A run that logs only a loss still has one."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        for step in range(20):
            time.sleep(0.005)
            run.log({"train/loss": 1.0}, step=step)
    found = chiplog.read(run.dir).goodput()
    assert found.seconds["step"] >= 20 * 0.005 * 0.9
    assert sum(found.seconds.values()) == pytest.approx(found.wall)


def test_show_draws_it(tmp_path, capsys) -> None:
    """A sentence, a bar, and the kinds."""
    run = train(tmp_path, range(20))
    assert cli.main(["show", str(run.dir)]) == 0
    out = capsys.readouterr().out
    assert "went into productive steps" in out and "█ step" in out and "▒ data" in out


def test_a_run_without_steps_has_no_such_section(tmp_path, capsys) -> None:
    """Nothing is made up."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.event("note", text="hello")
    assert cli.main(["show", str(run.dir)]) == 0
    assert "productive steps" not in capsys.readouterr().out
