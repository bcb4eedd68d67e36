"""Compaction: segments become parts, and compacted segments are compressed."""

from __future__ import annotations

from pathlib import Path

import duckdb

import chiplog
from chiplog.store import layout
from chiplog.store.parts import compaction
from tests.store.parts.compacting import compact_all


def test_compacting_twice_changes_nothing(tmp_path: Path) -> None:
    """The first part wins."""
    with chiplog.init("p", sinks="none", dir=tmp_path) as run:
        run.log({"x": 1})
    assert compact_all(run.dir) == 1
    before = {path: path.stat().st_mtime_ns for path in (run.dir / "parts").iterdir()}
    assert compact_all(run.dir) == 0
    assert {path: path.stat().st_mtime_ns for path in (run.dir / "parts").iterdir()} == before
    assert all(not path.name.startswith(".") for path in before), "nothing is left aside"


def test_a_pruned_segment_is_read_from_its_compressed_form(tmp_path: Path) -> None:
    """Records are all there after the text is gone."""
    with chiplog.init("p", sinks="none", dir=tmp_path) as run:
        for step in range(1000):
            run.log({"x": step}, step=step)
    before = list(chiplog.read(run.dir).records())
    compact_all(run.dir)
    segment = layout.segments(run.dir)[0]
    assert compaction.prune(run.dir, segment)
    assert not (run.dir / "journal" / segment.filename).exists()
    stored = chiplog.read(run.dir)
    assert list(stored.records()) == before
    assert stored.state == "finished" and len(stored.series("x")) == 1000
    assert not compaction.prune(run.dir, segment)


def test_a_segment_that_has_grown_since_is_not_pruned(tmp_path: Path) -> None:
    """Only what a part covers whole may go."""
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    run.log({"x": 1})
    compact_all(run.dir)
    run.log({"x": 2})
    assert not compaction.prune(run.dir, layout.segments(run.dir)[0])


def test_many_runs_open_in_duckdb_with_one_glob(tmp_path: Path) -> None:
    """Parts are ordinary Parquet, with the run's identity in the path."""
    for number in range(3):
        with chiplog.init("p", sinks="none", dir=tmp_path, id=f"run-{number}") as run:
            for step in range(10):
                run.log({"loss": number + step / 10}, step=step)
        compact_all(run.dir)
    rows = duckdb.sql(
        f"""SELECT split_part(filename, '/', -3) AS run, max(value) AS worst
            FROM read_parquet('{tmp_path}/*/*/parts/*.points.parquet', filename = true)
            WHERE name = 'loss' GROUP BY run ORDER BY run"""
    ).fetchall()
    assert rows == [("run-0", 0.9), ("run-1", 1.9), ("run-2", 2.9)]
