"""Histories under `torchrun`, with two ranks and with four."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core.records import Event

ROOT = Path(__file__).parents[3]


class Job:
    """What the ranks have left, and what they wrote to the terminal."""

    def __init__(self, world: int, folder: Path) -> None:
        self.world, self.folder = world, folder
        launcher = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}")
        done = subprocess.run(
            [sys.executable, *launcher, "-m", "tests.frontends.ezpz.job", str(folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.stderr = done.stderr

    def told(self, rank: int) -> Any:
        return json.loads((self.folder / f"{rank}.json").read_text())

    def calls(self, rank: int) -> Any:
        return json.loads((self.folder / f"finished-{rank}.json").read_text())

    def lines(self, place: str = "out") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / place / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module", params=[2, 4])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(request.param, tmp_path_factory.mktemp(f"ranks-{request.param}"))


def test_the_lines_are_one_per_update(job: Job) -> None:
    """With NaN or a missing name on other ranks, nested names, vectors, texts, stopwatches, timings and facts."""
    found = job.lines()
    assert [line["step"] for line in found] == [0, 1, 2, 3]
    assert set(found[0]["metrics"]) - set(found[0]["aggregated"]) == {"loss", "step", "lr", "d/a"}
    assert found[1]["metrics"]["loss/mean"] == "nan" and found[2]["metrics"]["d/a/count"] == 1
    last = found[3]["metrics"]
    assert (last["v"], last["t"], last["m"]) == ([1.0, 2.0], "words", [[1.0, 0.0], [0.0, 1.0]])
    assert found[0]["aggregated"]["loss/mean"] == 1.0 + (job.world - 1) / 2


def test_the_sheet_has_one_row_per_update(job: Job) -> None:
    """One column called `step`, and none about the ranks themselves, timings or stopwatches."""
    header, *rows = csv.reader((job.folder / "out" / "metrics.csv").read_text().splitlines())
    assert [row[0] for row in rows] == ["0", "1", "2", "3"] and header.count("step") == 1
    assert not [name for name in header if name.startswith(("ranks/", "timings", "StopWatch", "env_info"))]
    assert rows[3][header.index("v")] == "[1.0,2.0]" and rows[3][header.index("t")] == "words"
    header, *rows = csv.reader((job.folder / "out" / "training_history.csv").read_text().splitlines())
    assert header.count("step") == 1 and [float(row[0]) for row in rows] == [0, 1, 2, 3]


def test_two_histories_live_side_by_side(job: Job) -> None:
    """Each has its own run, statistics and files."""
    assert [line["metrics"]["acc/max"] for line in job.lines("out-other")] == [job.world - 1.0] * 4
    assert len(list((job.folder / "runs" / "default").iterdir())) == 2


def test_the_line_has_each_metric_once(job: Job) -> None:
    """With its deviation; no counts, and no second token for a nested name."""
    for line in job.told(0)["lines"]:
        names = [token.partition("=")[0] for token in line.replace("(± ", "(±").split() if "=" in token]
        assert len(names) == len(set(names)) and not [name for name in names if "/" in name], line
    assert "d.a=0.0(±" in job.told(0)["lines"][0]


def test_backends_of_ones_own_get_every_update_on_every_rank(job: Job) -> None:
    """Whole rows: rank 0's with the statistics, others' as they logged them; made with their rank, and finished."""
    for rank in range(job.world):
        calls = job.calls(rank)
        logged = [call for call in calls if call[0] == "log"]
        assert [step for _, _, step in logged] == [0, 1, 2, 3] and calls[-1] == ["finish"]
        assert logged[3][1]["v"] == [1.0, 2.0] and logged[3][1]["t"] == "words" and logged[0][1]["loss"] == 1.0 + rank
        assert ("loss/mean" in logged[0][1]) == (rank == 0) and job.told(rank)["rank"] == rank
        assert ["config", {"lr": 0.1}] in calls


def test_facts_given_at_the_end_are_with_the_run(job: Job) -> None:
    about = json.loads((job.folder / "out" / "run_info.json").read_text())
    assert about["env_info"] == {"site": {"nodes": 2}} and about["timings"] == {"data": 1.5} and about["id"]


def test_a_stopwatch_is_heard_on_rank_0_alone(job: Job) -> None:
    """Without any logging set up."""
    assert job.stderr.count("forward took 0.0") == 4


def test_a_normal_end_is_not_a_missing_rank(job: Job) -> None:
    """The other ranks end before rank 0, which still writes files: nothing is reported, and no gap is recorded."""
    said = [line for line in job.stderr.splitlines() if line.startswith("chiplog:")]
    assert said == ["chiplog: 't' is not a number ('words'); stored as text"]  # once, by the rank that stores it
    for run in (job.folder / "runs" / "default").iterdir():
        stored = chiplog.read(run)
        assert stored.state == "finished"
        assert not [one for one in stored.records("event") if isinstance(one, Event) and one.name == "gap"]
