"""Many ranks in one directory: one metric over all of them, with rank as an axis."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.store import layout
from chiplog.store.parts import compaction
from chiplog.store.points.run_points import RunPoints
from tests.faults.harness import count

WRITERS = """
import os, sys
import chiplog
first, last, world, steps, folder = *map(int, sys.argv[1:5]), sys.argv[5]
for rank in range(first, last):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), CHIPLOG_RUN_ID="many", CHIPLOG_NO_REDUCE="1")
    with chiplog.init("p", sinks="none", dir=folder, ranks="all", compact=False, alerts=False) as run:
        for step in range(steps):
            run.log({"train/loss": step + rank / 4096, "train/tokens": step}, step=step)
"""


def write(folder: Path, ranks: int, steps: int, writers: int = 2) -> Path:
    """Journals of so many ranks, written by a few processes at once."""
    each = ranks // writers
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITERS, *map(str, (at * each, (at + 1) * each, ranks, steps, folder))],
            env={**os.environ, "CHIPLOG_RUN_ID": "many"},
        )
        for at in range(writers)
    ]
    assert [one.wait(600) for one in started] == [0] * writers
    return folder / "p" / "many"


@pytest.mark.timeout(900)
def test_a_thousand_ranks_are_one_matrix(tmp_path: Path) -> None:
    """Step by rank, every record there, and constant files a rank; 64 ranks here, 1,024 at the large size."""
    ranks, steps = count(64, 1024), count(100, 1000)
    run = write(tmp_path, ranks, steps)
    stored = chiplog.read(run)
    matrix = stored.series("train/loss").by_rank()
    assert matrix.ranks.tolist() == list(range(ranks)) and matrix.steps.tolist() == list(range(steps))
    assert np.array_equal(matrix.values, np.arange(steps)[:, None] + np.arange(ranks) / 4096)
    assert stored.missing == {} and stored.damage == []
    assert len(list((run / "journal").iterdir())) == ranks


def one_rank(folder: Path, rank: int, launch: str, steps: range, value: float, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"RANK": str(rank), "WORLD_SIZE": "8", "SLURM_JOB_ID": launch, "CHIPLOG_NO_REDUCE": "1"}.items():
        monkeypatch.setenv(name, text)
    with chiplog.init("p", sinks="none", dir=folder, ranks="all", id="run", compact=False) as run:
        for step in steps:
            run.log({"x": value, "y": True}, step=step)
        run.event("gpu", step=steps[0], id=0, power=rank)
        run.eval({"loss": float(rank)}, step=steps[0])
    return run.dir


def test_a_restart_with_fewer_ranks_hides_what_it_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four ranks, then two from step 5 on: of the other two nothing is shown that the restart did again."""
    for rank in range(4):
        path = one_rank(tmp_path, rank, "first", range(10), 1.0, monkeypatch)
    for rank in range(2):
        one_rank(tmp_path, rank, "second", range(5, 12), 2.0, monkeypatch)
    matrix = chiplog.read(path).series("x").by_rank()
    assert matrix.steps.tolist() == list(range(12))
    assert np.array_equal(matrix.values[:5], np.ones((5, 4)))
    assert np.array_equal(matrix.values[5:, :2], np.full((7, 2), 2.0))
    assert np.isnan(matrix.values[5:, 2:]).all()


@pytest.mark.parametrize("name", ["x", "y", "gpu/0/power", "eval/loss", "nothing"])
def test_a_quick_look_says_what_a_whole_one_does(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows, booleans, events and evals; from journals, damaged ones, live ones, and parts."""
    for rank in range(3):
        path = one_rank(tmp_path, rank, "first", range(20), float(rank), monkeypatch)

    def whole() -> np.ndarray:
        frame = RunPoints(path)
        frame.refresh()
        return frame.series(name).by_rank().values

    quick = RunPoints(path)
    assert np.array_equal(quick.series(name, rank=0).by_rank().values, whole(), equal_nan=True)
    victim = path / "journal" / "r00002-a01-0000.jsonl"
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    assert np.array_equal(RunPoints(path).series(name, rank=0).by_rank().values, whole(), equal_nan=True)
    with (path / "journal" / "r00001-a01-0000.jsonl").open("ab") as file:
        file.write(b'\n{"log":"step","seq":')  # a write that is under way
    assert np.array_equal(quick.series(name, rank=0).by_rank().values[:, :2], whole()[:, :2], equal_nan=True)
    for segment in layout.segments(path)[1:]:
        assert compaction.compact(path, segment)
    assert np.array_equal(RunPoints(path).series(name, rank=0).by_rank().values, whole(), equal_nan=True)


def test_a_quick_look_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a live run it reads what has come since."""
    path = one_rank(tmp_path, 0, "first", range(3), 0.0, monkeypatch)
    one_rank(tmp_path, 1, "first", range(3), 1.0, monkeypatch)
    stored = chiplog.read(path)
    assert stored.series("x").by_rank().values.shape == (3, 2)
    one_rank(tmp_path, 2, "first", range(4), 2.0, monkeypatch)
    assert stored.series("x").by_rank().values.shape == (4, 3)
