"""One segment: its part, if it has one, and the tail beyond it."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.core.records import Eval
from chiplog.store import layout
from chiplog.store.contents.segment import SegmentContents, segments
from chiplog.store.journal.lines import line_of
from chiplog.store.parts.compaction import compact, prune


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with chiplog.init("p", sinks="none", dir=tmp_path, compact=False, alerts=False) as run:
        for step in range(3):
            run.log({"loss": float(step)}, step=step)
            run.table("rows", [{"a": step}], step=step)
    return run.dir


def kinds(segment: SegmentContents) -> list[str]:
    return [type(record).__name__ for record in segment.records("table")]


def test_the_part_answers_and_the_tail_follows(path: Path) -> None:
    """What is appended after compaction is read from the segment."""
    (segment,) = segments(path)
    assert segment.part is None and segment.stream == "r00000-a01"
    whole = list(segment.records())
    compact(path, segment.segment)
    assert segment.part is not None, "a part that appears later is used"
    with segment.path.open("ab") as file:
        file.write(line_of(Eval(99, 99, 9, {"loss": 0.5})))
    assert kinds(segment) == ["Table", "Table", "Table", "Eval"]
    assert [record.seq for record in segment.records()] == [*(record.seq for record in whole), 99]
    assert [record.seq for record in segment.table("rows")][-1] == 99


def test_a_part_that_appears_after_the_tail_was_read_waits_for_a_refresh(path: Path) -> None:
    """Otherwise its points would be read twice: from the part, and from the tail."""
    (segment,) = segments(path)
    assert segment.refresh().count == len(list(segment.records()))
    compact(path, segment.segment)
    assert segment.part is None and list(segment.ask(lambda part: part.about.records)) == []
    assert segment.refresh().count == 0 and segment.part is not None


def test_a_broken_part_gives_way_to_the_segment(path: Path) -> None:
    """A query that cannot be answered reads the whole segment."""
    (segment,) = segments(path)
    compact(path, segment.segment)
    for file in (path / layout.PARTS).glob("*.rows.parquet"):
        data = bytearray(file.read_bytes())
        data[data.rindex(b"rows")] ^= 0xFF  # in the records, which come last
        file.write_bytes(bytes(data))
    rows, scanner = SegmentContents(path, segment.segment).query(lambda part: part.rows("table"))
    assert list(rows) == [] and len(list(scanner.read())) == len(list(segment.records()))


def test_a_pruned_segment_is_recognized(path: Path) -> None:
    """Only its part and a compressed copy are left, and both hold everything."""
    (segment,) = segments(path)
    before = [record.seq for record in segment.records()]
    assert not segment.pruned
    compact(path, segment.segment)
    assert prune(path, segment.segment) and segment.pruned
    assert [record.seq for record in segment.records()] == before
    assert kinds(segment) == ["Table", "Table", "Table"]
