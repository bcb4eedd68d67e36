"""One series of one journal reads the same as the whole journal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.store import layout
from chiplog.store.contents.run_segments import RunSegments
from chiplog.store.parts import compaction
from chiplog.store.points.run_points import RunPoints
from tests.store.points.one_rank import one_rank


@pytest.mark.parametrize("name", ["x", "y", "gpu/0/power", "eval/loss", "nothing"])
def test_one_series_equals_that_of_the_whole_journal(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For rows, booleans, events and evals; in whole, damaged and live journals, and in parts."""
    for rank in range(3):
        path = one_rank(tmp_path, rank, "first", range(20), float(rank), monkeypatch)

    def whole() -> np.ndarray:
        points = RunPoints(RunSegments(path))
        points.refresh()
        return points.series(name).by_rank().values

    quick = RunPoints(RunSegments(path))
    assert np.array_equal(quick.series(name, rank=0).by_rank().values, whole(), equal_nan=True)
    victim = path / "journal" / "r00002-a01-0000.jsonl"
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    assert np.array_equal(RunPoints(RunSegments(path)).series(name, rank=0).by_rank().values, whole(), equal_nan=True)
    with (path / "journal" / "r00001-a01-0000.jsonl").open("ab") as file:
        file.write(b'\n{"log":"step","seq":')  # a write in progress
    assert np.array_equal(quick.series(name, rank=0).by_rank().values[:, :2], whole()[:, :2], equal_nan=True)
    for segment in layout.segments(path)[1:]:
        assert compaction.compact(path, segment)
    assert np.array_equal(RunPoints(RunSegments(path)).series(name, rank=0).by_rank().values, whole(), equal_nan=True)


def test_it_continues_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a live run it reads what is new."""
    path = one_rank(tmp_path, 0, "first", range(3), 0.0, monkeypatch)
    one_rank(tmp_path, 1, "first", range(3), 1.0, monkeypatch)
    stored = chiplog.read(path)
    assert stored.series("x").by_rank().values.shape == (3, 2)
    one_rank(tmp_path, 2, "first", range(4), 2.0, monkeypatch)
    assert stored.series("x").by_rank().values.shape == (4, 3)
