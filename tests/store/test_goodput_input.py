"""Goodput of a stored run: from what its journals say."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog import cli
from chiplog.core import records
from tests.views.web.stores import BEGAN, Journal, make_run

S = 10**9
ROW = {"train/loss": 1.0, "train/step_time_sec": 0.004, "train/data_time_sec": 0.001}


def train(run: Path, steps: range, *, attempt: int = 1, began: int = BEGAN) -> None:
    """An attempt that logs a step of 4 ms every 5 ms."""
    journal = Journal(run, attempt=attempt, began=began)
    for step in steps:
        journal.add(records.Step, 0.005, step=step, metrics=ROW)
    journal.finish()


def test_steps_data_and_the_rest_add_up(tmp_path: Path) -> None:
    """Twenty steps of 4 ms, of which 1 ms waited for data."""
    run = make_run(tmp_path, "p", "r")
    train(run, range(20))
    ledger = chiplog.read(run).goodput()
    assert ledger.seconds["step"] == pytest.approx(0.06) and ledger.seconds["data"] == pytest.approx(0.02)
    assert ledger.wall == pytest.approx(0.1) and sum(ledger.seconds.values()) == pytest.approx(ledger.wall)
    assert ledger.attempts == 1 and ledger.seconds["lost"] == 0


def test_a_restart_from_an_older_step_loses_what_it_repeats(tmp_path: Path) -> None:
    """Ten of the twenty steps are done again: half of the first attempt's time is lost, and the pause is down time."""
    run = make_run(tmp_path, "p", "r")
    train(run, range(20))
    train(run, range(10, 30), attempt=2, began=BEGAN + S)
    ledger = chiplog.read(run).goodput()
    assert ledger.attempts == 2
    assert ledger.seconds["lost"] == pytest.approx(0.04)
    assert ledger.seconds["step"] == pytest.approx(0.09)
    assert ledger.seconds["down"] == pytest.approx(0.9)


def test_a_row_may_stand_for_several_steps(tmp_path: Path) -> None:
    """With `log_every`, the time of the steps between two rows is in it."""
    run = make_run(tmp_path, "p", "r")
    journal = Journal(run)
    for step in range(0, 21, 5):
        row = {"train/step_time_sec": 0.002, "train/step_time_sec/mean": 0.004, "train/interval_steps": 5.0}
        row = row if step else {"train/step_time_sec": 0.004}
        journal.add(records.Step, 0.025 if step else 0.005, step=step, metrics=row)
    journal.finish()
    ledger = chiplog.read(run).goodput()
    assert ledger.seconds["step"] + ledger.seconds["warmup"] == pytest.approx(21 * 0.004)
    assert ledger.wall == pytest.approx(0.105)


def test_the_meter_writes_rows_of_several_steps_like_that(tmp_path: Path) -> None:
    """Under those names, with all steps."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.meter(log_every=5)
        for _ in run.steps(range(20)):
            pass
    stored = chiplog.read(run.dir)
    counts = stored.series("train/interval_steps").values
    assert counts.tolist() == [5, 5, 5, 4], "after the first row, which stands for one step"
    assert len(stored.series("train/step_time_sec/mean")) == 4 and len(stored.series("train/step_time_sec")) == 5
    assert 0 < stored.goodput().seconds["step"] <= stored.goodput().wall


def test_spans_tell_evals_and_checkpoints_apart(tmp_path: Path) -> None:
    """What `run.span("eval")` took is not idle time."""
    run = make_run(tmp_path, "p", "r")
    journal = Journal(run)
    for step in range(4):
        journal.add(records.Step, 0.01, step=step, metrics={"train/loss": 1.0, "train/step_time_sec": 0.01})
    journal.add(
        records.SpansRecord, 0.06, names=["eval", "checkpoint"], threads=["MainThread"], name=[0, 1], thread=[0, 0],
        id=[1, 2], parent=[0, 0], start=[BEGAN + S * 40 // 1000, BEGAN + S * 60 // 1000],
        duration=[S * 20 // 1000, S * 30 // 1000], step=[3, 3],
    )  # fmt: skip
    journal.finish()
    ledger = chiplog.read(run).goodput()
    assert ledger.seconds["eval"] == pytest.approx(0.02, abs=1e-5)
    assert ledger.seconds["checkpoint"] == pytest.approx(0.03, abs=1e-5)
    assert ledger.seconds["step"] == pytest.approx(0.04, abs=1e-5)
    assert ledger.seconds["idle"] == pytest.approx(0.01, abs=1e-5)


def test_spans_of_a_live_run_are_of_these_kinds(tmp_path: Path) -> None:
    """`run.span` leads to the same."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        for _ in range(4):
            with run.step():
                run.log({"train/loss": 1.0})
        with run.span("eval"):
            sum(range(100_000))  # longer than the resolution of the time
        with run.span("checkpoint"):
            sum(range(100_000))
        run.event("over")
    ledger = chiplog.read(run.dir).goodput()
    assert ledger.seconds["eval"] > 0 and ledger.seconds["checkpoint"] > 0


def test_without_step_times_the_rows_are_the_clock(tmp_path: Path) -> None:
    """A run that logs only a loss still has one."""
    run = make_run(tmp_path, "p", "r")
    journal = Journal(run)
    for step in range(20):
        journal.add(records.Step, 0.005, step=step, metrics={"train/loss": 1.0})
    journal.finish()
    ledger = chiplog.read(run).goodput()
    assert ledger.seconds["step"] == pytest.approx(20 * 0.005)
    assert sum(ledger.seconds.values()) == pytest.approx(ledger.wall)


def test_show_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence, a bar, and the kinds."""
    run = make_run(tmp_path, "p", "r")
    train(run, range(20))
    assert cli.main(["show", str(run)]) == 0
    out = capsys.readouterr().out
    assert "60.0% of 100ms went into productive steps" in out and "█ step" in out and "▒ data" in out


def test_a_run_without_steps_has_no_such_section(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is made up."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.event("note", text="hello")
    assert cli.main(["show", str(run.dir)]) == 0
    assert "productive steps" not in capsys.readouterr().out
