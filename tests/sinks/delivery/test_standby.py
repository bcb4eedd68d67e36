"""Services on threads of the training process, and the relay that stands by for what those cannot deliver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.sinks.delivery import standby
from tests.support.waiting import wait_for
from tests.support.wandb_runs import relay_pids

EXPECTED = [(step, {"loss": step / 7}) for step in range(50)]


@pytest.fixture
def run(tmp_path: Path, boat: Any, monkeypatch: pytest.MonkeyPatch) -> chiplog.Run:
    monkeypatch.setattr(standby, "CHECK", 0.05)
    options = {"boat": {"path": str(boat.path)}}
    return chiplog.init("test", sinks=options, dir=tmp_path / "runs", id="run", relay="thread")


def log(run: chiplog.Run, first: int, last: int) -> None:
    for step in range(first, last):
        run.log({"loss": step / 7}, step=step)


def test_what_cannot_continue_here_is_delivered_by_the_relay(
    run: chiplog.Run, boat: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the run goes on, from where the thread was, with one message; the end waits for it as for any relay."""
    log(run, 0, 20)
    wait_for(lambda: len(boat.cargo) == 20)
    boat.weather(f"not {os.getpid()}")
    log(run, 20, 40)
    wait_for(lambda: boat.cargo == EXPECTED[:40], 30)
    wait_for(lambda: run.health()["sinks"]["boat"]["state"] == "ok", 30)
    assert run.health()["sinks"]["boat"]["errors"] == 1 and len(relay_pids(run.dir)) == 1
    assert run.settle(0.0), "it is not a sink of this process any more"
    log(run, 40, 50)
    assert run.finish()
    assert boat.cargo == EXPECTED and boat.closed
    said = capsys.readouterr().err
    assert said.count("sink 'boat' failed (no mooring here); retrying") == said.count("boat") == 1, said


def test_what_cannot_continue_at_the_end_is_left_to_the_relay(run: chiplog.Run, boat: Any) -> None:
    """It is named, with what becomes of it."""
    boat.weather(f"not {os.getpid()}")
    log(run, 0, 50)
    done = run.finish(timeout=10)
    assert done or "the relay process" in done.missing["boat"]
    wait_for(lambda: boat.cargo == EXPECTED and boat.closed, 30)


def test_a_relay_that_is_not_needed_ends_with_the_run(run: chiplog.Run, boat: Any) -> None:
    """It has delivered nothing."""
    log(run, 0, 50)
    assert run.finish()
    wait_for(lambda: not relay_pids(run.dir), 30)
    assert boat.cargo == EXPECTED
