"""Ranks that die or stand still: the others' training goes on, the gap is marked, every journal is complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chiplog

from . import reference
from .harness import PATIENCE, count

pytestmark = pytest.mark.timeout(PATIENCE)

ROOT = Path(__file__).parents[2]


def hurt(folder: Path, how: str, times: int, seconds: float, plan: str) -> list[dict[str, Any]]:
    words = [sys.executable, "-m", "tests.faults.rank_faults", str(folder), how, str(times), str(seconds)]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "PLAN": plan}, capture_output=True, text=True, check=False
    )
    errors = "".join(file.read_text() for file in folder.glob("*/*.err"))
    assert done.returncode == 0, f"{done.stderr}\n{errors}"
    found: list[dict[str, Any]] = json.loads((folder / "found.json").read_text())
    return found


def check_journals(told: dict[str, Any]) -> None:
    """Every row whose `log` returned is in its rank's journal, and nothing is damaged."""
    run = Path(told["dir"])
    for (rank, _), stream in reference.streams(run).items():
        numbers = [record["metrics"]["n"] for record in stream if record["log"] == "step" and "n" in record["metrics"]]
        rows = told["ranks"][rank]["rows"]
        assert numbers == list(range(len(numbers))) and len(numbers) in (rows, rows + 1), f"rank {rank}"
    assert reference.damage(run) == []


def check_statistics(told: dict[str, Any]) -> list[int]:
    """No statistic mixes two steps; gives the steps that all four ranks are part of."""
    stored = chiplog.read(told["dir"])
    mean, low, high = (stored.series(f"x/{kind}") for kind in ("mean", "min", "max"))
    assert np.array_equal(low.values // 1000, low.steps) and np.array_equal(high.values // 1000, high.steps)
    partial = set(stored.series("x/count").steps.tolist()) if "x/count" in stored.names() else set()
    whole = [step for step in mean.steps.tolist() if step not in partial]
    assert [value for step, value in zip(mean.steps, mean.values, strict=True) if step not in partial] == [
        step * 1000 + 1.5 for step in whole
    ]
    return whole


def test_a_killed_rank_costs_one_aggregation(tmp_path: Path) -> None:
    """The others train on without a pause; the statistics end with a gap that is marked; no journal lacks a row."""
    for told in hurt(tmp_path, "kill", count(3, 30), 0, "async" if count(0, 1) else "async,deadline=2"):
        assert told["marked"] < 2 + 3  # 2 s is the promise; a busy machine may take its time
        assert all(rank["longest"] < 1.5 and rank["done"] for rank in told["ranks"][:3])
        check_journals(told)
        whole = check_statistics(told)
        (gap,) = [event for event in reference.records(Path(told["dir"]), "event") if event["name"] == "gap"]
        assert gap["data"]["across"] == "ranks" and max(whole) <= gap["step"] + 1


def test_a_stopped_rank_costs_training_nothing(tmp_path: Path) -> None:
    """A deadline passes in the background; when the rank goes on, the statistics come back, and mix no steps."""
    seconds, plan = (60.0, "async") if count(0, 1) else (4.0, "async,deadline=2")
    (told,) = hurt(tmp_path, "stop", 1, seconds, plan)
    assert all(rank["longest"] < 1.5 for rank in told["ranks"][:3])
    assert all(rank["done"] for rank in told["ranks"])
    check_journals(told)
    whole = check_statistics(told)
    first, second = [event for event in reference.records(Path(told["dir"]), "event") if event["name"] == "gap"]
    assert second["data"]["seconds"] > seconds - (12 if seconds > 10 else 3)
    assert first["step"] < second["data"]["until"] and any(step > second["data"]["until"] for step in whole)
