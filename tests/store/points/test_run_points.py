"""The quick way to a curve says what the series says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.store import layout
from chiplog.store.parts import compaction
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
        series = stored.series(name)
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
