"""Sinks of a run that has started."""

from __future__ import annotations

import json
from pathlib import Path

import chiplog
from chiplog.assembly.run_sinks import add_sink, sink_state
from chiplog.sinks.jsonl import Jsonl


def test_a_late_sink_gets_everything(tmp_path: Path) -> None:
    """Also what was logged before it was added, beside a sink of the start."""
    with chiplog.init("p", sinks="memory", dir=tmp_path) as run:
        run.log({"loss": 1.0}, step=0)
        add_sink(run, "late", Jsonl(tmp_path / "late.jsonl"))
        run.log({"loss": 2.0}, step=1)
        assert run.settle(20.0, "late") and run.settle(20.0, "memory") and run.settle(20.0)
        assert {"memory", "late"} <= run.health()["sinks"].keys()
    lines = [json.loads(line) for line in (tmp_path / "late.jsonl").read_text().splitlines()]
    assert [line["metrics"]["loss"] for line in lines if "metrics" in line] == [1.0, 2.0]


def test_a_run_without_sinks_gets_one(tmp_path: Path) -> None:
    """The late sink is its only one."""
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    add_sink(run, "late", Jsonl(tmp_path / "late.jsonl"))
    run.log({"loss": 1.0})
    assert run.finish().complete and '"loss":1.0' in (tmp_path / "late.jsonl").read_text()


def test_the_state_of_a_sink(tmp_path: Path) -> None:
    """It is what the sink has saved to resume from; empty for a sink that has saved nothing."""
    run = chiplog.init("p", sinks="jsonl", dir=tmp_path)
    assert sink_state(run, "mlflow") == {}
    run.log({"loss": 1.0})
    run.finish()
    assert sink_state(run, "jsonl")["size"] > 0
