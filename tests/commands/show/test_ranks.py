"""`chiplog show --ranks`."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from tests.commands.conftest import Cli


def test_ranks_are_shown_with_the_farthest_first(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table by distance from the others, and a heat map of the step time."""
    for name, text in {"WORLD_SIZE": "3", "CHIPLOG_RUN_ID": "many", "CHIPLOG_NO_REDUCE": "1"}.items():
        monkeypatch.setenv(name, text)
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        with chiplog.init("p", sinks="none", ranks="all") as run:
            for step in range(10):
                run.log({"train/loss": 1.0, "train/step_time_sec": 0.5 if rank != 1 else 0.9}, step=step)
    code, out, _ = cli("show", "many", "--ranks")
    assert code == 0
    assert out.splitlines()[1].split()[0] == "1" and "train/step_time_sec by rank" in out
    assert "   1 │██████████│" in out
    assert "train/loss by rank" in cli("show", "many", "--ranks", "--of", "train/loss")[1]
    code, _, err = cli("show", "many", "--ranks", "--of", "train/los")
    assert code == 2 and "did you mean 'train/loss'" in err


def test_ranks_are_shown_by_a_mean_where_there_is_nothing_else(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own name ends like that of a statistic."""
    for name, text in {"WORLD_SIZE": "2", "CHIPLOG_RUN_ID": "means", "CHIPLOG_NO_REDUCE": "1"}.items():
        monkeypatch.setenv(name, text)
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        with chiplog.init("p", sinks="none", ranks="all") as run:
            run.log({"reward/mean": float(rank)}, step=0)
    assert "reward/mean by rank" in cli("show", "means", "--ranks")[1]


def test_a_run_of_one_rank_says_so(cli: Cli, path: Path) -> None:
    assert "only rank 0 keeps a journal" in cli("show", path, "--ranks")[1]
