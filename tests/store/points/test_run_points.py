"""The points of a run, from parts and journals, of one rank and of many."""

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
from tests.faults.harness import count
from tests.views.web import stores


@pytest.mark.parametrize("compacted", ["none", "first", "all"])
def test_places_are_the_points_of_the_series(tmp_path: Path, compacted: str) -> None:
    """Of two attempts, from parts, from journals, and from both; hidden points stay hidden."""
    run = stores.rich(tmp_path)
    segments = layout.segments(run)
    for segment in segments[: {"none": 0, "first": 1, "all": len(segments)}[compacted]]:
        compaction.compact(run, segment)
    stored = chiplog.read(run)
    for name in ("train/loss", "train/grad_norm", "gpu/0/power", "nothing"):
        series = stored.series(name, missing_ok=True)
        steps, values = stored.places(name)
        order = np.argsort(series.steps, kind="stable")
        assert np.array_equal(steps, series.steps[order])
        assert np.array_equal(values, series.values[order], equal_nan=True)


def test_a_broken_part_is_read_around(tmp_path: Path) -> None:
    """The journal says the same."""
    run = stores.simple(tmp_path, "one")
    for segment in layout.segments(run):
        compaction.compact(run, segment)
    points = next((run / layout.PARTS).glob("*.points.parquet"))
    data = bytearray(points.read_bytes())
    data[100] ^= 0xFF
    points.write_bytes(bytes(data))
    steps, _ = chiplog.read(run).places("train/loss")
    assert len(steps) == 200


def test_reading_a_part_does_not_import_pandas(tmp_path: Path) -> None:
    """It takes half a second where it is installed."""

    run = stores.simple(tmp_path, "one")
    for segment in layout.segments(run):
        compaction.compact(run, segment)
    code = (
        "import sys, chiplog\nstored = chiplog.read(sys.argv[1])\nstored.places('train/loss'); stored.series('train/lr').times\n"
        "list(stored.records('eval')); stored.spans().table(); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


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
