"""Histories on two ranks that are not in step (see `uneven.py` for what the ranks do)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.ezpz.uneven import DEADLINE

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("uneven")
    subprocess.run(
        [sys.executable, "-m", "tests.frontends.ezpz.uneven", str(folder)], cwd=ROOT, check=True, timeout=110
    )
    return folder, json.loads((folder / "results.json").read_text())


def first(told: tuple[Path, dict[str, Any]], scenario: str) -> Any:
    """What rank 0 returned."""
    for rank in told[1][scenario]:
        assert "code" not in rank, "\n".join((told[0] / scenario / f"{one}.err").read_text() for one in (0, 1))
    return told[1][scenario][0]["value"]


def said(told: tuple[Path, dict[str, Any]], scenario: str) -> str:
    return (told[0] / scenario / "0.err").read_text()


def test_a_late_rank_is_missed_and_met_again(told: tuple[Path, dict[str, Any]]) -> None:
    """Its row has its count and no statistics of one rank; one message; and then they are over all again."""
    rows = first(told, "slow")["rows"]
    assert len(rows) == 60
    assert all(row["loss/mean"] == 1.5 for row in rows[:5])
    missed = [at for at, row in enumerate(rows) if "loss/mean" not in row]
    assert missed[0] == 5 and all(rows[at] == {"loss": 1.0, "loss/count": 1} for at in missed)
    assert missed == list(range(5, 5 + len(missed))) and len(missed) < 45
    assert all(row["loss/mean"] == 1.5 and "loss/count" not in row for row in rows[5 + len(missed) :])
    assert said(told, "slow").count("rank 1 did not log within") == 1


def test_a_late_rank_costs_its_time_once(told: tuple[Path, dict[str, Any]]) -> None:
    took = first(told, "slow")["took"]
    assert sum(one > 0.9 * DEADLINE for one in took) == 1


def test_what_a_rank_logged_before_it_ended_still_counts(told: tuple[Path, dict[str, Any]]) -> None:
    rows = first(told, "first_to_finish")["rows"]
    assert [row.get("loss/mean") for row in rows] == [1.5] * 10
    assert [row.get("loss/std") for row in rows] == [0.5] * 10


def test_what_a_rank_logged_before_rank_0_had_started_still_counts(told: tuple[Path, dict[str, Any]]) -> None:
    rows = first(told, "slow_start")["rows"]
    assert [row.get("loss/mean") for row in rows] == [1.5] * 10


def test_a_row_of_rank_0_alone_stalls_nobody_and_shifts_nothing(told: tuple[Path, dict[str, Any]]) -> None:
    found = first(told, "own_row")
    losses = [row for row in found["rows"] if "loss" in row]
    assert [row["loss/mean"] for row in losses] == [step + 0.5 for step in range(8)]
    own = [row for row in found["rows"] if "eval/acc" in row]
    assert own == [{"eval/acc": 0.9}] * 4
    assert sum(one > 0.3 for one in found["took"]) <= 1 and max(found["took"]) < 2.0


def test_steps_that_begin_again_have_statistics(told: tuple[Path, dict[str, Any]]) -> None:
    rows = first(told, "epochs")["rows"]
    assert [row["loss/mean"] for row in rows] == [10.0 * epoch + step + 0.5 for epoch in range(3) for step in range(3)]


def test_a_history_on_rank_0_alone_waits_a_moment_and_says_so(told: tuple[Path, dict[str, Any]]) -> None:
    found = first(told, "one_alone")
    assert found["took"] < 4.0 and found["rows"] == [{"loss": 1.0}]
    assert "not all 2 ranks have started this run" in said(told, "one_alone")


def test_nan_on_another_rank_is_in_the_statistics(told: tuple[Path, dict[str, Any]]) -> None:
    """As a reduction of torch has it; the rank counts, and an alert names it."""
    found = first(told, "not_a_number")
    assert found["rows"][0]["loss/mean"] == 1.0
    for row in found["rows"][1:]:
        assert [row[f"loss/{one}"] for one in ("mean", "max", "min", "std")] == ["nan"] * 4
        assert "loss/count" not in row
    assert found["alerts"] == ["loss is not finite on rank 1"]
