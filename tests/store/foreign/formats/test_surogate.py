"""Surogate's log, in its own form and as chiplog's front end writes it."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chiplog.frontends.surogate import TrainingRunLogger
from tests.frontends.surogate.logs import everything
from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values

TIME = "2026-01-02 03:04:0{}.123456789"
LINES = [
    {"log": "cmd", "time": TIME.format(0), "step": 0, "cmd": ["train.py", "x"]},
    {"log": "option", "time": TIME.format(0), "step": 0, "name": "lr", "value": 0.1},
    {"log": "step", "time": TIME.format(1), "step": 1, "epoch": 0.5, "loss": 2.5, "norm": "nan", "phase": "warmup"},
    {"log": "step", "time": TIME.format(2), "step": 2, "epoch": 0.6, "loss": "inf", "norm": 1, "phase": "warmup"},
    {"log": "eval", "time": TIME.format(3), "step": 2, "loss": 3.5},
    {"log": "gpu", "time": TIME.format(3), "step": 2, "id": 1, "power": 300, "throttle": ""},
    {"log": "moe", "time": TIME.format(3), "step": 2, "aux_loss": 0.5},
]


def write(path: Path, count: int = len(LINES), day: str = "2026-01-02") -> Path:
    text = "[\n  " + ",\n  ".join(map(json.dumps, LINES[:count])) + "\n]\n"
    path.write_text(text.replace("2026-01-02", day))
    return path


def test_a_log_is_a_run(tmp_path: Path) -> None:
    """Steps, evaluations, GPUs by id, routers, options as config; times to the nanosecond, NaN from text."""
    (run,) = opened(write(tmp_path / "run-1.json"), tmp_path / "cache")
    whole = values(run)
    assert whole["train/loss"] == [(1, 2.5), (2, math.inf)] and whole["eval/loss"] == [(2, 3.5)]
    assert math.isnan(whole["train/norm"][0][1]) and whole["train/norm"][1] == (2, 1.0)
    assert whole["gpu/1/power"] == [(2, 300.0)] and whole["moe/aux_loss"] == [(2, 0.5)]
    assert run.config == {"lr": 0.1} and run.environment["command"] == ["train.py", "x"]
    assert run.series("train/loss").times.astype("int64")[0] == 1767323041123456789
    assert [one.text for one in run.records("text")] == ["warmup"] and lost(run) == {}  # type: ignore[union-attr]


def test_a_log_that_grows_adds_what_is_new(tmp_path: Path) -> None:
    """Its end is written again with each record; another log in its place is another attempt."""
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"  # still being written
    for count in (3, 4, 7):
        (run,) = opened(write(tmp_path / "run-1.json", count, tomorrow), tmp_path / "cache")
    assert len(values(run)["train/loss"]) == 2 and len(run.attempts) == 1
    (run,) = opened(write(tmp_path / "run-1.json", 3, tomorrow), tmp_path / "cache")
    assert len(run.attempts) == 2 and values(run)["train/loss"] == [(1, 2.5)]


def test_a_message_that_is_not_escaped_costs_its_line(tmp_path: Path) -> None:
    """Surogate escapes nothing: one quote makes the file invalid JSON, but not the other lines."""
    path = write(tmp_path / "run-1.json")
    path.write_text(path.read_text().replace('"train.py"', '"tr"ain.py"'))
    (run,) = opened(path, tmp_path / "cache")
    assert values(run)["train/loss"] == [(1, 2.5), (2, math.inf)] and lost(run) == {"lines that are not JSON": 1}


def test_cuts_give_no_wrong_values(tmp_path: Path) -> None:
    """Killed while it wrote a record."""
    (tmp_path / "source").mkdir()
    source = write(tmp_path / "source" / "run-1.json")
    (whole,) = opened(source, tmp_path / "cache")
    for number, copy in enumerate(foreign_stores.cuts(source.parent, source.name, tmp_path)):
        for run in opened(copy, tmp_path / f"cache{number}"):
            foreign_stores.assert_part_of(values(run), values(whole))


def test_the_log_of_the_front_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record that it writes is read, and no line is lost."""
    monkeypatch.chdir(tmp_path)
    with TrainingRunLogger("log.json") as made:
        everything(made)
    (run,) = opened(tmp_path / "log.json", tmp_path / "cache")
    assert values(run)["train/loss"] == [(1, 2.3356)] and values(run)["eval/loss"] == [(1, 3.5)]
    assert values(run)["gpu/0/power"] == [(1, 350000.0)] and run.config["lr"] == 2e-4 and lost(run) == {}
