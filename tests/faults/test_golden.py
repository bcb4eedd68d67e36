"""Runs in the bytes that releases wrote are always read as they were then."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core import records
from chiplog.store import layout
from chiplog.store.parts import compaction

from . import reference

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
RELEASES = sorted(path.name for path in GOLDEN.iterdir() if (path / "expected.json").exists())

SINCE = {"0.1": {"console"}}  # kinds that came when the run of a release had been made

sys.path.insert(0, str(GOLDEN))
from make import content  # noqa: E402


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(release: str, tmp_path: Path) -> Path:
    """A copy of a release's run."""
    return Path(shutil.copytree(GOLDEN / release / "run", tmp_path / "golden" / "run"))


def expected(release: str) -> Any:
    return json.loads((GOLDEN / release / "expected.json").read_bytes())


def test_every_release_is_read_as_it_was_written(release: str, run: Path) -> None:
    """Series, records, spans, summary, config, attempts, damage and what is missing are exactly those of then."""
    found = json.loads(json.dumps(content(run)))
    for what, value in expected(release).items():
        assert found[what] == value, what


def test_every_release_says_the_same_without_its_parts_and_with_new_ones(release: str, run: Path) -> None:
    """The journal alone says it all, and parts that this version makes of it say the same."""
    shutil.rmtree(run / "parts")
    assert json.loads(json.dumps(content(run))) == expected(release)
    for segment in layout.segments(run):
        assert compaction.compact(run, segment)
    assert json.loads(json.dumps(content(run))) == expected(release)


def test_the_reference_reader_reads_every_release(release: str, run: Path) -> None:
    """The page of the format is about these files too."""
    found = [{key: value for key, value in record.items() if key != "crc"} for record in reference.records(run)]
    plain = {path.name for path in (run / "journal").glob("*.jsonl")}
    known = [
        record
        for segment in layout.segments(run)
        if segment.filename in plain
        for record in map(records.fields, chiplog.read(run).records(rank=segment.rank))
    ]
    assert found and all(record in known for record in found)


def test_the_golden_runs_hold_every_kind_of_record(release: str) -> None:
    """And all of what is hard: several ranks and attempts, damage, parts with a tail beyond, a compressed segment."""
    said = expected(release)
    assert {record["log"] for record in said["records"]} == set(records.KINDS) - SINCE[release]
    assert {(rank, attempt) for rank, attempt, *_ in said["attempts"]} == {(0, 1), (0, 2), (0, 3), (1, 1)}
    assert {state for *_, state in said["attempts"]} == {"finished", "lost"}
    assert len(said["damage"]) >= 4 and said["missing"] and said["spans"]
    names = {path.name for path in (GOLDEN / release / "run").rglob("*") if path.is_file()}
    assert "r00000-a01-0000.jsonl.zst" in names and "r00000-a02-0000.points.parquet" in names
    assert sum(path.stat().st_size for path in (GOLDEN / release).rglob("*") if path.is_file()) < 100_000
